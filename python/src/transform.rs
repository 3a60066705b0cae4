//! Users' transforms of images.
