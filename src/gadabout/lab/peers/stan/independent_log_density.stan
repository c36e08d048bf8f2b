// gadabout.targets.gaussian
data {
  int<lower=0> rows;
  vector<lower=0>[rows] stds;
}
parameters {
  vector[rows] x;
}
model {
  x ~ normal(0, stds);
}
