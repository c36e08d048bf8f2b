// gadabout.targets.wild.time_series.hidden_markov
data {
  int<lower=1> rows;
  vector[rows] y;
}
parameters {
  real mu_1, log_gap;
  vector[2] logit_stay;
  real log_sigma;
}
model {
  vector[2] mu = [mu_1, mu_1 + exp(log_gap)]';
  vector[2] stay = log_inv_logit(logit_stay);
  vector[2] leave = log_inv_logit(-logit_stay);
  vector[2] forward = [normal_lupdf(y[1] | mu[1], exp(log_sigma)), normal_lupdf(y[1] | mu[2], exp(log_sigma))]';
  for (t in 2 : rows) {
    vector[2] before = forward;
    for (k in 1 : 2) {
      forward[k] = log_sum_exp(before[k] + stay[k], before[3 - k] + leave[3 - k])
                   + normal_lupdf(y[t] | mu[k], exp(log_sigma));
    }
  }
  mu ~ normal(0, 10);
  exp(log_sigma) ~ cauchy(0, 2.5);
  target += log_gap + log_sigma + sum(stay) + sum(leave);
  target += log_sum_exp(forward);
}
