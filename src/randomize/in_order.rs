//! The data's own order.
