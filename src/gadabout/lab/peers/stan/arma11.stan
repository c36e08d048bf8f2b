// gadabout.targets.wild.time_series.arma11
data {
  int<lower=1> rows;
  vector[rows] y;
}
parameters {
  real mu, phi, theta, log_sigma;
}
model {
  vector[rows] error;
  error[1] = y[1] - mu - phi * mu;
  for (t in 2 : rows) {
    error[t] = y[t] - mu - phi * y[t - 1] - theta * error[t - 1];
  }
  mu ~ normal(0, 10);
  phi ~ normal(0, 2);
  theta ~ normal(0, 2);
  exp(log_sigma) ~ cauchy(0, 2.5);
  target += log_sigma;
  error ~ normal(0, exp(log_sigma));
}
