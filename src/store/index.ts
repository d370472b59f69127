/**
 * Stores: where streams, blobs and small tables live.
 *
 * The interfaces are what the server, the gateway and the client are written against; the
 * implementations pass the suites in `test/conformance/`.
 */
export type {
  BlobFound,
  BlobListing,
  BlobMiss,
  BlobName,
  BlobPut,
  BlobSealer,
  BlobStore,
  Digest,
  Page,
} from "./blob-store.ts";
export { checkGot, checkPut } from "./blob-store.ts";
export type { CommitLog, LogRow } from "./commit-log.ts";
export type { Hint, Letter, Letters, NewLetter } from "./letters.ts";
export type { LogStreamStoreOptions } from "./log-stream-store.ts";
export { openLogStreamStore } from "./log-stream-store.ts";
export type { MemoryBlobStoreOptions } from "./memory-blob-store.ts";
export { type MemoryBlobStore, memoryBlobStore, sha256Hex } from "./memory-blob-store.ts";
export type { MemoryLogOptions, MemoryStreamStoreOptions } from "./memory-log.ts";
export { MemoryLog, memoryStreamStore } from "./memory-log.ts";
export type {
  FileLock,
  LockOptions,
  ScanProgress,
  SqliteDatabase,
  SqliteOptions,
  SqliteStore,
  SqliteStoreOptions,
} from "./sqlite/index.ts";
export { DATABASE_FILE, lockFile, openSqlite, openSqliteReadOnly, openSqliteStore } from "./sqlite/index.ts";
export type {
  Absent,
  Batch,
  ChunkBatch,
  Commit,
  Committed,
  Conflict,
  Creation,
  Expected,
  Gone,
  Held,
  HostLease,
  Live,
  Seen,
  ErasableStreams,
  StreamStore,
} from "./stream-store.ts";
export type {
  BatchResult,
  DeleteWrite,
  KeyPage,
  PutOptions,
  PutWrite,
  TableKey,
  TableRow,
  TableStore,
  TableWrite,
  WriteConflict,
  Written,
} from "./table-store.ts";
export { NO_ROW } from "./table-store.ts";
