/**
 * What an application makes of the events it reads: a digest that does not depend on how text was cut
 * into deltas, so that live events and joined ones come to the same.
 */
import { decodeTurnEvent } from "./agent-messages.ts";
import type { TrueStream } from "./truth.ts";

export function foldEvent(digest: number, body: Uint8Array): number {
  if (body.length === 0) return digest;
  const event = decodeTurnEvent(body);
  const said = event.kind === "text" ? event.text : `[${Buffer.from(body).toString("latin1")}]`;
  let next = digest;
  for (let at = 0; at < said.length; at++) next = (Math.imul(next, 31) + said.charCodeAt(at)) | 0;
  return next;
}

export function digestOfEvents(stream: TrueStream, through: number): number {
  return stream.events.slice(0, through).reduce((digest, entry) => foldEvent(digest, entry.body), 0);
}
