/**
 * Where appends find their connection: by principal, stream, stream key and tag.
 *
 * The principal is part of the name, so nobody reaches another's connection, whatever tag is sent (E2). So is the stream key: whoever has a
 * wrong one finds nothing, and does not push out the connection that has the right one (E1).
 */
import { HoldfastError } from "../../protocol/errors.ts";
import type { AcceptedMeta } from "../transport.ts";
import type { SplitConnection } from "./split-connection.ts";

export class ConnectionTable {
  readonly #connections = new Map<string, SplitConnection>();

  get size(): number {
    return this.#connections.size;
  }

  /** A tag that is used again means that the client has given up the connection before. */
  add(connection: SplitConnection): void {
    const name = nameOf(connection.meta, connection.tag);
    const before = this.#connections.get(name);
    this.#connections.set(name, connection);
    before?.refuse(new HoldfastError("connection_lost", "another connection has begun under this tag"));
  }

  remove(connection: SplitConnection): void {
    const name = nameOf(connection.meta, connection.tag);
    if (this.#connections.get(name) === connection) this.#connections.delete(name);
  }

  find(meta: AcceptedMeta, tag: string): SplitConnection | undefined {
    return this.#connections.get(nameOf(meta, tag));
  }
}

function nameOf({ principal, idempotencyKey, streamKey }: AcceptedMeta, tag: string): string {
  return JSON.stringify([principal, idempotencyKey, tag, Buffer.from(streamKey).toString("base64url")]);
}
