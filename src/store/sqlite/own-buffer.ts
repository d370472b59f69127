/**
 * Bytes whose memory can be handed to another thread: a view of a larger buffer is copied, because
 * handing it on would take the rest of the buffer away from whoever else looks into it.
 */
export function ownBuffer(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const { buffer, byteOffset, byteLength } = bytes;
  const isWhole = byteOffset === 0 && byteLength === buffer.byteLength;
  return isWhole && buffer instanceof ArrayBuffer && !buffer.resizable
    ? new Uint8Array(buffer)
    : new Uint8Array(bytes);
}
