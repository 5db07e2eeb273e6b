//! The accept loop: sockets, deadlines, two-stage stop. Knows nothing of the product.
