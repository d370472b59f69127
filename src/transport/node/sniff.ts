/**
 * Tells HTTP/2 from HTTP/1.1 on a clear connection by its first bytes.
 *
 * HTTP/2 begins with "PRI * HTTP/2.0". HTTP/1.1 has methods that begin with "P" and "PR", but none with
 * "PRI", so three bytes are enough, and mostly the first one is. Whether the rest of the preface is right is checked by
 * the server that gets the connection, with every byte still in it.
 */
import type { Socket } from "node:net";

const PREFACE_BEGINNING = Buffer.from("PRI");

export function sniff(
  socket: Socket,
  timeoutMs: number,
  serve: (socket: Socket, version: 1 | 2) => void,
): void {
  let seen: Buffer = Buffer.alloc(0);
  const timer = setTimeout(() => socket.destroy(), timeoutMs);

  function look(piece: Buffer): void {
    seen = seen.length === 0 ? piece : Buffer.concat([seen, piece]);
    const count = Math.min(seen.length, PREFACE_BEGINNING.length);
    const isSame = seen.subarray(0, count).equals(PREFACE_BEGINNING.subarray(0, count));
    if (isSame && count < PREFACE_BEGINNING.length) return;
    leave();
    socket.pause();
    socket.unshift(seen);
    serve(socket, isSame ? 2 : 1);
  }

  /** The socket is allowed to be half open, so it must be destroyed when its peer has nothing to say. */
  function giveUp(): void {
    leave();
    socket.destroy();
  }

  function leave(): void {
    clearTimeout(timer);
    socket.off("data", look);
    socket.off("end", giveUp);
    socket.off("close", giveUp);
  }

  socket.on("data", look);
  socket.on("end", giveUp);
  socket.on("close", giveUp);
}
