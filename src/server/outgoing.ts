/**
 * The connections of one stream, and the frames that are to leave on them.
 *
 * All frames that one step of the host has for a connection leave in one write. Frames for a connection that is gone are dropped:
 * what they said is in the log.
 */
import type { ServerFrame } from "../protocol/frames.ts";
import type { Wire } from "../transport/transport.ts";

export class Outgoing {
  readonly #wires = new Map<number, Wire<ServerFrame>>();
  readonly #queued = new Map<number, ServerFrame[]>();

  add(connection: number, wire: Wire<ServerFrame>): void {
    this.#wires.set(connection, wire);
  }

  /** The connection is gone. */
  remove(connection: number): void {
    this.#wires.delete(connection);
  }

  has(connection: number): boolean {
    return this.#wires.has(connection);
  }

  /** Says what waits, then ends the connection. */
  end(connection: number): void {
    this.flush();
    this.#wires.get(connection)?.end();
    this.#wires.delete(connection);
  }

  queue(connection: number, frame: ServerFrame): void {
    const queued = this.#queued.get(connection);
    if (queued === undefined) this.#queued.set(connection, [frame]);
    else queued.push(frame);
  }

  /** Writes at once, behind what waits. Returns how many bytes wait unsent. */
  write(connection: number, frames: readonly ServerFrame[]): number {
    const queued = this.#queued.get(connection);
    this.#queued.delete(connection);
    // Mostly nothing waits before them, and they need not be copied to stand behind it.
    return this.#wires.get(connection)?.write(queued === undefined ? frames : [...queued, ...frames]) ?? 0;
  }

  flush(): void {
    for (const [connection, frames] of this.#queued) {
      // Before the write: a peer in this process may answer within it.
      this.#queued.delete(connection);
      this.#wires.get(connection)?.write(frames);
    }
  }
}
