//! The allocator of tests that simulate for minutes: the same as in the program. With glibc's allocator, a third of the time is
//! spent in allocation.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
