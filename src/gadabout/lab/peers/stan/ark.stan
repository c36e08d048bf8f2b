// gadabout.targets.wild.time_series.ark
data {
  int<lower=0> rows, n;
  vector[rows] y;
  matrix[rows, n] lags;
}
parameters {
  real a;
  vector[n] b;
  real log_sigma;
}
model {
  a ~ normal(0, 10);
  b ~ normal(0, 10);
  exp(log_sigma) ~ cauchy(0, 2.5);
  target += log_sigma;
  y ~ normal_id_glm(lags, a, b, exp(log_sigma));
}
