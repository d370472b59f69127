/**
 * What the server's log says of an answer: read anew, from its first event on, by a client of its own in a tab of the page.
 */
import { openClient } from "../../../src/client/browser/index.ts";
import { decodeServer } from "../../../src/turn/messages.ts";
import { emptyView, spokenText } from "../../../src/turn/view.ts";
import { reduce } from "../../../src/turn/view-fold.ts";

declare const localStorage: { getItem(name: string): string | null };
declare const location: { readonly origin: string };

async function logged(idempotencyKey: string): Promise<string> {
  const url = `${location.origin}/`;
  const apiKey = localStorage.getItem(`holdfast api key ${url}`) ?? "";
  const client = await openClient({ url, apiKey });
  let view = emptyView();
  for await (const { eventId, body } of (await client.follow(idempotencyKey)).events) {
    if (eventId !== view.eventId + 1) throw new Error(`event ${eventId} comes behind ${view.eventId}`);
    view = reduce(view, eventId, decodeServer(body));
  }
  await client.close();
  return spokenText(view);
}

Object.assign(globalThis, { logged });
