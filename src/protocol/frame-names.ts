/**
 * Names in frames that are numbers on the wire. The numbers are the contract's, whose own tables of names no page has to load: a test
 * compares them.
 */
import type { AttachMode, Durability, EndReason, Role } from "./frames.ts";
import type * as wire from "./gen/holdfast/v1/stream.ts";

export const MODES: Readonly<Record<AttachMode, wire.AttachMode>> = { open: 1, resume: 2 };
export const ROLES: Readonly<Record<Role, wire.Role>> = { writer: 1, reader: 2 };
export const DURABILITIES: Readonly<Record<Durability, wire.Durability>> = { none: 1, fsync: 2, quorum: 3 };
export const ENDS: Readonly<Record<EndReason, wire.EndReason>> = { completed: 1, aborted: 2, failed: 3 };
