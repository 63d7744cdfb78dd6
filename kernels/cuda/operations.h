// One line per .cu file of this folder: puts its operations into the table.
#pragma once

#include "kernels/operation_table.h"

namespace ringgrad::kernels::RINGGRAD_CUDA_NAMESPACE {

void add_batch_norm(OperationTable& table);
void add_conv2d(OperationTable& table);
void add_convert(OperationTable& table);
void add_cross_entropy(OperationTable& table);
void add_elementwise(OperationTable& table);
void add_fill(OperationTable& table);
void add_hash(OperationTable& table);
void add_linear(OperationTable& table);
void add_pool2d(OperationTable& table);
void add_sgd(OperationTable& table);

}  // namespace ringgrad::kernels::RINGGRAD_CUDA_NAMESPACE
