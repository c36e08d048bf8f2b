// gadabout.targets.wild.hierarchical.eight_schools_noncentred
data {
  int<lower=0> rows;
  vector[rows] y;
  vector<lower=0>[rows] sd;
}
parameters {
  real mu, log_tau;
  vector[rows] eta;
}
model {
  mu ~ normal(0, 5);
  exp(log_tau) ~ cauchy(0, 5);
  target += log_tau;
  eta ~ std_normal();
  y ~ normal(mu + exp(log_tau) * eta, sd);
}
