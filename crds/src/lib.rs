//! lockstep
