// gadabout.targets.wild.time_series.garch11
data {
  int<lower=1> rows;
  vector[rows] y;
}
parameters {
  real mu, log_alpha_0, logit_alpha_1, logit_beta_1;
}
model {
  real alpha_0 = exp(log_alpha_0);
  real alpha_1 = inv_logit(logit_alpha_1);
  real beta_1 = inv_logit(-logit_alpha_1) * inv_logit(logit_beta_1);
  vector[rows] sigma;
  sigma[1] = 0.5;
  for (t in 2 : rows) {
    sigma[t] = sqrt(alpha_0 + alpha_1 * square(y[t - 1] - mu) + beta_1 * square(sigma[t - 1]));
  }
  target += log_alpha_0 + log_inv_logit(logit_alpha_1) + 2 * log_inv_logit(-logit_alpha_1);
  target += log_inv_logit(logit_beta_1) + log_inv_logit(-logit_beta_1);
  y ~ normal(mu, sigma);
}
