// One run of Stan's NUTS with the defaults of its services: chains side by side in threads, draws in memory.
//
// run DATA.json STARTS.json CHAINS DRAWS SEED OUT.bin
//
// prints the seconds from the call to all draws in memory, then the names of the columns in OUT.bin, which holds
// (chains, draws, columns) in double precision. Chain i starts at the position in STARTS.json.i, i from 0.

#include <chrono>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <stan/callbacks/interrupt.hpp>
#include <stan/callbacks/logger.hpp>
#include <stan/callbacks/writer.hpp>
#include <stan/io/json/json_data.hpp>
#include <stan/math/prim/core/init_threadpool_tbb.hpp>
#include <stan/model/model_base.hpp>
#include <stan/services/sample/hmc_nuts_diag_e_adapt.hpp>

stan::model::model_base& new_model(stan::io::var_context& data, unsigned int seed, std::ostream* messages);

struct Draws : stan::callbacks::writer {
  using stan::callbacks::writer::operator();
  std::vector<std::string> names;
  std::vector<double> values;
  void operator()(const std::vector<std::string>& columns) override { names = columns; }
  void operator()(const std::vector<double>& row) override { values.insert(values.end(), row.begin(), row.end()); }
};

int main(int, char** arguments) {
  const size_t chains = std::stoul(arguments[3]);
  const int draws = std::stoi(arguments[4]);
  const unsigned int seed = std::stoul(arguments[5]);
  std::ifstream data_file(arguments[1]);
  stan::json::json_data data(data_file);
  auto& model = new_model(data, seed, &std::cerr);
  std::vector<std::shared_ptr<stan::io::var_context>> starts;
  for (size_t chain = 0; chain < chains; ++chain) {
    std::ifstream start(std::string(arguments[2]) + "." + std::to_string(chain));
    starts.push_back(std::make_shared<stan::json::json_data>(start));
  }
  stan::callbacks::interrupt interrupt;
  stan::callbacks::logger logger;
  std::vector<stan::callbacks::writer> nowhere(chains), nothing(chains);
  std::vector<Draws> kept(chains);

  const auto began = std::chrono::steady_clock::now();
  stan::math::init_threadpool_tbb();
  const int code = stan::services::sample::hmc_nuts_diag_e_adapt(
      model, chains, starts, seed, 1, 2, 1000, draws, 1, false, 0, 1, 0, 10, 0.8, 0.05, 0.75, 10, 75, 50, 25, interrupt,
      logger, nowhere, kept, nothing);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;

  std::ofstream out(arguments[6], std::ios::binary);
  for (const auto& chain : kept)
    out.write(reinterpret_cast<const char*>(chain.values.data()), chain.values.size() * sizeof(double));
  std::cout << std::setprecision(9) << took.count() << "\n";
  for (const auto& name : kept[0].names) std::cout << name << "\n";
  return code;
}
