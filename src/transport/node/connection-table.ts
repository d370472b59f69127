/**
 * Where appends find their connection: by principal, stream, stream key and tag.
 *
 * The principal is part of the name, so no client reaches another's connection by any tag (E2). So is the stream key: a client with a
 * wrong one finds nothing, and does not push out the connection that has the right one (E1).
 */
import { HoldfastError } from "../../protocol/errors.ts";
import type { AcceptedMeta } from "../transport.ts";
import type { SplitConnection } from "./split-connection.ts";

export type ConnectionTable = ReturnType<typeof connectionTable>;

export function connectionTable() {
  const connections = new Map<string, SplitConnection>();

  return {
    get size(): number {
      return connections.size;
    },
    /** A tag that is used again means that the client has given up the connection before. */
    add(connection: SplitConnection): void {
      const name = nameOf(connection.meta, connection.tag);
      const before = connections.get(name);
      connections.set(name, connection);
      before?.refuse(new HoldfastError("connection_lost", "another connection has begun under this tag"));
    },
    remove(connection: SplitConnection): void {
      const name = nameOf(connection.meta, connection.tag);
      if (connections.get(name) === connection) connections.delete(name);
    },
    find(meta: AcceptedMeta, tag: string): SplitConnection | undefined {
      return connections.get(nameOf(meta, tag));
    },
  };
}

function nameOf({ principal, idempotencyKey, streamKey }: AcceptedMeta, tag: string): string {
  return JSON.stringify([principal, idempotencyKey, tag, Buffer.from(streamKey).toString("base64url")]);
}
