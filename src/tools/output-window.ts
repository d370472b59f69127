/**
 * The output of a command within a bound: its beginning and its end, with a note where something is missing.
 *
 * Both ends matter: the beginning says what was done, the end how it went. The beginning can be shown while the command
 * runs; the end is known when it has ended.
 */
export function outputWindow(bytesMax: number) {
  const heads: Uint8Array[] = [];
  let tails: Uint8Array[] = [];
  let tailBytes = 0;
  let total = 0;
  /** What of the beginning is still to come. */
  let headRoom = Math.ceil(bytesMax / 2);
  const tailMax = bytesMax - headRoom;

  const isTruncated = (): boolean => total > bytesMax;

  function lastBytes(): Uint8Array {
    const tail = Buffer.concat(tails);
    const last = tail.subarray(Math.max(0, tail.length - tailMax));
    tailBytes = last.length;
    return last;
  }

  /** What follows the beginning: the note, if something is missing, and the end. */
  function end(): Uint8Array {
    const note = isTruncated() ? `\n[... ${total - bytesMax} bytes left out ...]\n` : "";
    return Buffer.concat([Buffer.from(note), lastBytes()]);
  }

  return {
    isTruncated,
    /** Returns what of it belongs to the beginning. */
    add(bytes: Uint8Array): Uint8Array {
      const head = bytes.subarray(0, headRoom);
      const rest = bytes.subarray(head.length);
      headRoom -= head.length;
      if (head.length > 0) heads.push(head);
      if (rest.length > 0) tails.push(rest);
      tailBytes += rest.length;
      total += bytes.length;
      // Only now and then: a copy for each piece of a long output would cost more than the output.
      if (tailBytes > 2 * tailMax) tails = [lastBytes()];
      return head;
    },
    end,
    bytes(): Uint8Array {
      return Buffer.concat([...heads, end()]);
    },
  };
}
