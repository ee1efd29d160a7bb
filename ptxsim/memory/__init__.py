"""Global, shared and tensor memory: addresses, allocations, TMA boxes, matrix operands, bulk stores."""
