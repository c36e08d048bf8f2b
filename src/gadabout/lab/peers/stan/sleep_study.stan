// gadabout.targets.wild.hierarchical.sleep_study
data {
  int<lower=1> rows, n;
  array[rows] row_vector[n] time;
  row_vector[n] day;
}
parameters {
  vector[rows] a, b;
  real a_0, b_0, log_sigma_a, log_sigma_b, log_sigma;
}
model {
  a_0 ~ normal(0, 1000);
  b_0 ~ normal(0, 1000);
  exp(log_sigma_a) ~ cauchy(0, 100);
  exp(log_sigma_b) ~ cauchy(0, 100);
  exp(log_sigma) ~ cauchy(0, 100);
  target += log_sigma_a + log_sigma_b + log_sigma;
  a ~ normal(a_0, exp(log_sigma_a));
  b ~ normal(b_0, exp(log_sigma_b));
  for (s in 1 : rows) {
    time[s] ~ normal(a[s] + b[s] * day, exp(log_sigma));
  }
}
