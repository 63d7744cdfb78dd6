#include "engine/checkpoint.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "runtime/file.h"

namespace ringgrad {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWeightsFile = "model.safetensors";
constexpr const char* kStateFile = "state.safetensors";
constexpr const char* kVelocityPrefix = "velocity.";

// Element order of a (K,R,S,C) filter in memory and of the same as OIHW: calls f(index KRSC, index
// OIHW).
template <class F>
void for_each_filter_element(const Shape& krsc, F&& f) {
  std::size_t from = 0;
  for (Index k = 0; k < krsc[0]; ++k) {
    for (Index r = 0; r < krsc[1]; ++r) {
      for (Index s = 0; s < krsc[2]; ++s) {
        for (Index c = 0; c < krsc[3]; ++c) {
          f(from++, static_cast<std::size_t>(((k * krsc[3] + c) * krsc[1] + r) * krsc[2] + s));
        }
      }
    }
  }
}

std::vector<std::int64_t> stored_shape(const Shape& shape, Layout layout) {
  if (layout == Layout::filter) {
    return {shape[0], shape[3], shape[1], shape[2]};
  }
  std::vector<std::int64_t> extents;
  for (int i = 0; i < shape.rank(); ++i) {
    extents.push_back(shape[i]);
  }
  return extents;
}

HostTensor stored(const Tensor& tensor, Layout layout) {
  HostTensor host{tensor.dtype(), stored_shape(tensor.shape(), layout), {}};
  host.bytes.resize(static_cast<std::size_t>(tensor.bytes()));
  tensor.copy_to_host(host.bytes.data(), tensor.bytes());
  if (layout == Layout::filter) {
    const std::string krsc = host.bytes;
    const std::size_t size = size_of(tensor.dtype());
    for_each_filter_element(tensor.shape(), [&](std::size_t from, std::size_t to) {
      std::memcpy(host.bytes.data() + to * size, krsc.data() + from * size, size);
    });
  }
  return host;
}

void restore(Tensor tensor, Layout layout, const HostTensor& host) {
  dispatch_floating(tensor.dtype(), [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> values = host.values<T>();
    if (layout == Layout::filter) {
      const std::vector<T> oihw = values;
      for_each_filter_element(tensor.shape(),
                              [&](std::size_t to, std::size_t from) { values[to] = oihw[from]; });
    }
    tensor.copy_from_host(values.data(), static_cast<Index>(values.size() * sizeof(T)));
  });
}

// Strips "module.", which torch.nn.DataParallel puts before every name.
void strip_prefix(Safetensors& content, std::vector<std::string>& notes) {
  const std::string prefix = "module.";
  const auto prefixed = std::count_if(
      content.tensors.begin(), content.tensors.end(),
      [&](const auto& entry) { return entry.first.compare(0, prefix.size(), prefix) == 0; });
  if (prefixed == 0) {
    return;
  }
  RINGGRAD_CHECK(
      static_cast<std::size_t>(prefixed) == content.tensors.size(), prefixed, " of ",
      content.tensors.size(),
      " names start with 'module.'; expected all (a file saved from DataParallel) or none");
  std::map<std::string, HostTensor> stripped;
  for (auto& [name, tensor] : content.tensors) {
    stripped[name.substr(prefix.size())] = std::move(tensor);
  }
  content.tensors = std::move(stripped);
  notes.push_back("stripped the prefix 'module.' from all names");
}

bool belongs_to(const std::string& name, const std::vector<std::string>& modules) {
  return std::any_of(modules.begin(), modules.end(), [&](const std::string& module) {
    return name.compare(0, module.size() + 1, module + ".") == 0;
  });
}

void load_into(Members& members, Safetensors& content, const LoadOptions& options,
               std::vector<std::string>& notes) {
  strip_prefix(content, notes);
  struct Loading {
    Tensor tensor;
    Layout layout;
    const HostTensor* host;
  };
  std::vector<Loading> loading;
  std::vector<std::string> missing;
  const auto take = [&](const std::string& name, const Tensor& tensor, Layout layout) {
    const auto found = content.tensors.find(name);
    if (found == content.tensors.end()) {
      missing.push_back(name);
      return;
    }
    const std::vector<std::int64_t> expected = stored_shape(tensor.shape(), layout);
    const HostTensor& host = found->second;
    if (host.shape == expected) {
      loading.push_back({tensor, layout, &host});
    } else {
      RINGGRAD_CHECK(belongs_to(name, options.may_differ), "tensor ", name, " has shape ",
                     host.shape_text(), " in the file and ",
                     HostTensor{DType::f32, expected, {}}.shape_text(), " in the network");
      notes.push_back(concat(name, " starts afresh: ", host.shape_text(), " in the file, ",
                             HostTensor{DType::f32, expected, {}}.shape_text(), " here"));
    }
  };
  for (const auto& [name, parameter] : members.parameters) {
    take(name, parameter->tensor.detach(), parameter->layout);
  }
  for (const auto& [name, buffer] : members.buffers) {
    take(name, buffer->tensor, Layout::plain);
  }
  RINGGRAD_CHECK(
      missing.empty(), "the file has no tensor ", missing.front(),
      missing.size() > 1 ? concat(" (and ", missing.size() - 1, " more are missing)") : "");
  std::size_t known = members.parameters.size() + members.buffers.size();
  for (const auto& [name, counter] : members.counters) {
    const auto found = content.tensors.find(name);
    if (found != content.tensors.end()) {
      RINGGRAD_CHECK(found->second.count() == 1, "tensor ", name, " has shape ",
                     found->second.shape_text(), "; expected one number");
      ++known;
    }
  }
  if (known != content.tensors.size()) {
    for (const auto& [name, tensor] : content.tensors) {
      const auto is_name = [&, n = name](const auto& member) { return member.first == n; };
      RINGGRAD_CHECK(std::any_of(members.parameters.begin(), members.parameters.end(), is_name) ||
                         std::any_of(members.buffers.begin(), members.buffers.end(), is_name) ||
                         std::any_of(members.counters.begin(), members.counters.end(), is_name),
                     "the file's tensor ", name, " ", tensor.shape_text(),
                     " is not one of the network's");
    }
  }
  for (const Loading& one : loading) {
    restore(one.tensor, one.layout, *one.host);
  }
  for (const auto& [name, counter] : members.counters) {
    const auto found = content.tensors.find(name);
    if (found != content.tensors.end()) {
      *counter = found->second.values<std::int64_t>().front();
    }
  }
}

}  // namespace

Safetensors weights_of(Module& module) {
  const Members members = module.all_members();
  Safetensors content;
  for (const auto& [name, parameter] : members.parameters) {
    content.tensors[name] = stored(parameter->tensor.detach(), parameter->layout);
  }
  for (const auto& [name, buffer] : members.buffers) {
    content.tensors[name] = stored(buffer->tensor, Layout::plain);
  }
  for (const auto& [name, counter] : members.counters) {
    HostTensor& host = content.tensors[name];
    host.dtype = DType::i64;
    host.bytes.assign(reinterpret_cast<const char*>(counter), sizeof *counter);
  }
  content.metadata["format"] = "pt";
  return content;
}

void save_weights(Module& module, const fs::path& path, const StateText& metadata) {
  Safetensors content = weights_of(module);
  content.metadata.insert(metadata.begin(), metadata.end());
  write_safetensors(path, content);
}

std::vector<std::string> load_weights(Module& module, Safetensors content,
                                      const std::string& source, const LoadOptions& options) {
  std::vector<std::string> notes;
  Members members = module.all_members();
  try {
    load_into(members, content, options, notes);
  } catch (const Error& error) {
    throw Error(concat(source, ": ", error.what()));
  }
  return notes;
}

std::vector<std::string> load_weights(Module& module, const fs::path& path,
                                      const LoadOptions& options) {
  return load_weights(module, read_safetensors(path), path.string(), options);
}

void save_checkpoint(const fs::path& folder, Module& module, const SGD& optimizer,
                     const FlatParameters& parameters, const StateText& about,
                     const StateText& state) {
  const fs::path temporary = folder.string() + ".tmp." + std::to_string(getpid());
  Safetensors content;
  content.metadata = state;
  if (optimizer.velocity().defined()) {
    for (const FlatParameters::Range& range : parameters.ranges()) {
      content.tensors[kVelocityPrefix + range.name] =
          stored(optimizer.velocity().range(range.begin, range.tensor.shape()), Layout::plain);
    }
  }
  try {
    fs::remove_all(temporary);
    fs::create_directories(temporary);
    save_weights(module, temporary / kWeightsFile, about);
    write_safetensors(temporary / kStateFile, content);
    fs::rename(temporary, folder);
    sync_folder(folder.parent_path());
  } catch (const std::exception& error) {
    std::error_code ignored;
    fs::remove_all(temporary, ignored);
    throw Error(concat("checkpoint ", folder.string(), " could not be written: ", error.what()));
  }
}

StateText load_checkpoint(const fs::path& folder, Module& module, SGD& optimizer,
                          const FlatParameters& parameters) {
  load_weights(module, folder / kWeightsFile);
  const Safetensors content = read_safetensors(folder / kStateFile);
  for (const FlatParameters::Range& range : parameters.ranges()) {
    if (!optimizer.velocity().defined()) {
      break;
    }
    const auto found = content.tensors.find(kVelocityPrefix + range.name);
    RINGGRAD_CHECK(found != content.tensors.end(), (folder / kStateFile).string(),
                   ": no momentum for parameter ", range.name);
    const Tensor velocity = optimizer.velocity().range(range.begin, range.tensor.shape());
    RINGGRAD_CHECK(found->second.shape == stored_shape(velocity.shape(), Layout::plain),
                   (folder / kStateFile).string(), ": momentum of ", range.name, " has shape ",
                   found->second.shape_text(), "; expected ", velocity.shape().text());
    restore(velocity, Layout::plain, found->second);
  }
  return content.metadata;
}

StateText read_state(const fs::path& folder) {
  return read_safetensors(folder / kStateFile).metadata;
}

}  // namespace ringgrad
