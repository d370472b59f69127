/**
 * How many bytes this process has written to its network connections, as the sockets themselves count them.
 */
import { subscribe } from "node:diagnostics_channel";
import { Socket } from "node:net";

const sockets = new Set<Socket>();
let closedBytes = 0;

subscribe("net.client.socket", (message) => {
  const socket: unknown =
    typeof message === "object" && message !== null && "socket" in message ? message.socket : undefined;
  if (!(socket instanceof Socket)) return;
  sockets.add(socket);
  socket.once("close", () => {
    sockets.delete(socket);
    closedBytes += socket.bytesWritten;
  });
});

export function bytesSent(): number {
  let bytes = closedBytes;
  for (const socket of sockets) bytes += socket.bytesWritten;
  return bytes;
}
