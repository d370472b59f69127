/** Assertions, which every room without I/O shares: they are in the protocol's folder, within reach of all. */
export { assert, AssertionFailed, unreachable } from "../protocol/assert.ts";
