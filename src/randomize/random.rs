//! MT19937-64 and the draws made from it.
