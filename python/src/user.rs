//! Users' deserializers.
