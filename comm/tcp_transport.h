// The ring's transport between hosts: one TCP connection to the right neighbour, one from the left.
#pragma once

#include <memory>

#include "comm/socket.h"
#include "comm/transport.h"

namespace ringgrad::comm {

std::unique_ptr<Transport> make_tcp_transport(int rank, int size, Socket to_right,
                                              Socket from_left);

}  // namespace ringgrad::comm
