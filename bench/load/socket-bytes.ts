/**
 * How many bytes this process has sent and received over its network connections, as the sockets themselves count them.
 */
import { subscribe } from "node:diagnostics_channel";
import { Socket } from "node:net";

export interface Traffic {
  readonly sentBytes: number;
  readonly receivedBytes: number;
}

const sockets = new Set<Socket>();
let closed: Traffic = { sentBytes: 0, receivedBytes: 0 };

subscribe("net.client.socket", (message) => {
  const isNews = typeof message === "object" && message !== null && "socket" in message;
  const socket: unknown = isNews ? message.socket : undefined;
  if (!(socket instanceof Socket)) return;
  sockets.add(socket);
  socket.once("close", () => {
    sockets.delete(socket);
    closed = withSocket(closed, socket);
  });
});

function withSocket({ sentBytes, receivedBytes }: Traffic, socket: Socket): Traffic {
  return {
    sentBytes: sentBytes + socket.bytesWritten,
    receivedBytes: receivedBytes + socket.bytesRead,
  };
}

/** Since the process began. */
export function traffic(): Traffic {
  return [...sockets].reduce(withSocket, closed);
}
