/**
 * The limits of protocol version 1 (E8).
 *
 * Both sides check them, so that neither has to trust the other for its memory. Each one is tested
 * at the limit and one above. Raising one is a change of the protocol: an older peer would refuse.
 */

export const PROTOCOL_VERSION = 1;

const KIB = 1024;
const MIB = 1024 * KIB;

export const LIMITS = Object.freeze({
  /** A chunk is held in memory until it is durable and compared on playback; larger data is a blob. */
  chunkBytesMax: 1 * MIB,
  /** An event is copied once per reader; larger data is a blob, which only readers that need it fetch. */
  eventBytesMax: 256 * KIB,
  /** A blob is hashed and sealed as a whole, so it must fit in memory several times over. */
  blobBytesMax: 64 * MIB,
  /** Bounds what a client plays back after a reconnect, and its journal's outbox. */
  unackedChunksMax: 256,
  /** The same in bytes: 256 chunks of 1 MiB would be too much to hold for every stream. */
  unackedBytesMax: 8 * MIB,
  /** A reader slower than this is cut and resumes from the log later, instead of growing the heap. */
  sendQueueBytesMax: 4 * MIB,
  /** Every event is written once per reader; a page with many tabs shares one connection. */
  readersPerStreamMax: 16,
  /** Keeps one principal from taking all memory and disk of a node. */
  openStreamsPerPrincipalMax: 100,
  /** Recursive walks over foreign JSON must not reach the end of the call stack. */
  jsonDepthMax: 64,
  /** The largest HTTP body that is read into memory; images in OpenAI requests need the room. */
  bodyBytesMax: 32 * MIB,
  /** Anything larger travels by BlobService and is named by its id, so that the logs stay small. */
  inlineBytesMax: 64 * KIB,
  /** Fits a UUID, a hash or a derived name with a prefix; it is an index in every store. */
  idempotencyKeyBytesMax: 128,
  /** A journal id is a random name of ours; compared on every attach. */
  journalIdBytesMax: 64,
  /** An exec id is minted by us and repeated in every heartbeat while the tool runs. */
  execIdBytesMax: 64,
  /** Keeps a heartbeat small; a client carries out far fewer tools at once. */
  runningExecsMax: 256,
  /** What a frame may hold beside its body: ids, numbers, a message for people. */
  frameOverheadBytesMax: 64 * KIB,
  /** Longer messages for people are cut, so that no error is too large to be sent. */
  messageCharsMax: 1000,
  /** Frames of one append; a client cannot have more waiting for their ack, plus an abort and a heartbeat. */
  appendFramesMax: 258,
  /** Takeovers of one stream: two devices fighting over it end here instead of growing its record. */
  writersPerStreamMax: 256,
  /** A subagent that starts subagents must come to an end. */
  subagentDepthMax: 10,
});
