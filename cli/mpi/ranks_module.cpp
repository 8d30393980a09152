// The part of `headroom sweep` that uses MPI. It is a module of its own, which is loaded only under
// mpirun, so that the program starts without MPI's libraries. Its interface is C, and it uses
// nothing of the C++ library.
#include <mpi.h>

#include <climits>
#include <cstdlib>

extern "C" {

/// Initialises MPI; returns false if that fails.
bool headroom_ranks_join(int* rank, int* size) {
  return MPI_Init(nullptr, nullptr) == MPI_SUCCESS &&
         MPI_Comm_rank(MPI_COMM_WORLD, rank) == MPI_SUCCESS &&
         MPI_Comm_size(MPI_COMM_WORLD, size) == MPI_SUCCESS;
}

/// Sends `text` to rank 0, which calls `take` for the text of every rank, in rank order. Returns
/// false if that fails.
bool headroom_ranks_gather(const char* text, int length,
                           void (*take)(void* into, const char* text, int length), void* into) {
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  constexpr int kTag = 1;
  if (rank != 0) {
    return MPI_Send(text, length, MPI_CHAR, 0, kTag, MPI_COMM_WORLD) == MPI_SUCCESS;
  }
  take(into, text, length);
  for (int from = 1; from < size; ++from) {
    MPI_Status status;
    int count = 0;
    MPI_Probe(from, kTag, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_CHAR, &count);
    char* const buffer = static_cast<char*>(std::malloc(static_cast<std::size_t>(count) + 1));
    if (buffer == nullptr) {
      return false;
    }
    MPI_Recv(buffer, count, MPI_CHAR, from, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    take(into, buffer, count);
    std::free(buffer);
  }
  return true;
}

/// Waits until every rank has called this function.
void headroom_ranks_wait() {
  MPI_Barrier(MPI_COMM_WORLD);
}

void headroom_ranks_leave() {
  MPI_Finalize();
}

}  // extern "C"
