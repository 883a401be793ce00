//! The allocator of tests that simulate for minutes: the same as in the program. With glibc's allocator, a third of the time is
//! spent in allocation.

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
