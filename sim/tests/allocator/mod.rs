//! The allocator of the tests that simulate for minutes: the one that the program has. With that of glibc a third of their time
//! goes into allocation.

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
