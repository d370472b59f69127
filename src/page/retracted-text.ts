/**
 * What is gone of a text that grows at its end and may be taken back to an earlier place.
 */
import { cutAt } from "../protocol/characters.ts";

/** The text that stood on the screen and is gone; empty when the new one only adds to it. */
export function retractedText(before: string, now: string): string {
  if (now.startsWith(before)) return "";
  let same = 0;
  while (same < now.length && before.charCodeAt(same) === now.charCodeAt(same)) same++;
  return before.slice(cutAt(before, same));
}
