// gadabout.targets.logistic, where row i of `signed` is (2 t_i - 1) x_i.
data {
  int<lower=0> rows, n;
  matrix[rows, n] signed;
}
transformed data {
  array[rows] int<lower=0, upper=1> ones = ones_int_array(rows);
}
parameters {
  vector[n] x;
}
model {
  x ~ std_normal();
  ones ~ bernoulli_logit_glm(signed, 0, x);
}
