/**
 * Reads contents, wherever their bytes lie, and notes what is not in hand.
 *
 * What is made of contents is made as if all were there. If something was missing, the result is thrown away and `obtain` says how
 * to get it: so each thing is described in one place, and the description itself says what it needs.
 */
import type { Content, GetBlobResult } from "../protocol/messages.ts";
import { type Decision, WAIT } from "./decision.ts";
import { type Facts, getAnswer } from "./facts.ts";
import { endFailed } from "./failure.ts";
import { type Found, learn } from "./found.ts";
import { blobIn, bytesIn } from "./content.ts";

const NOTHING = new Uint8Array();

export class Reader {
  readonly missing = new Set<string>();
  readonly found: Found;

  constructor({ found }: Facts) {
    this.found = found;
  }

  /** What a content of the client's, or of our own, stands for; empty when there is none. */
  read(content: Content | undefined): Uint8Array {
    const blobId = blobIn(content);
    return blobId === undefined ? (bytesIn(content) ?? NOTHING) : this.blob(blobId);
  }

  blob(blobId: string): Uint8Array {
    const bytes = this.found.inHand.get(blobId) ?? this.found.fetched.get(blobId);
    if (bytes === undefined) this.missing.add(blobId);
    return bytes ?? NOTHING;
  }
}

/** Whether the conversation's blobs are kept: by the client, or by a server that has the conversation's key. */
export function isKept(facts: Facts): boolean {
  return facts.request?.keepsBlobs === true || serverKeeps(facts);
}

export function serverKeeps({ found }: Facts): boolean {
  return found.opened?.keepsConversation === true;
}

/** Whether the blob is kept, or was asked to be. */
export function isAsked({ sets, found }: Facts, blobId: string): boolean {
  return sets.has(blobId) || found.stored.has(blobId);
}

/** How to get what was missing: undefined when it has just been taken into hand. */
export function obtain(facts: Facts, missing: Iterable<string>): Decision | undefined {
  const { found, gets, request } = facts;
  const [toFetch, toGet]: [string[], string[]] = [[], []];
  let isAwaited = false;
  for (const blobId of missing) {
    const answer = getAnswer(facts, blobId)?.message;
    const isLookedFor = found.fetched.has(blobId);
    if (answer?.case === "getBlobResult") {
      const why = learnAnswer(found, blobId, answer.value, isLookedFor);
      if (why === "fetch") toFetch.push(blobId);
      else if (why !== undefined) return missed(blobId, why);
    } else if (gets.has(blobId)) {
      if (answer !== undefined || facts.isClosed) return missed(blobId, "the client does not answer for it");
      isAwaited = true;
    } else if (!isLookedFor) toFetch.push(blobId);
    else if (request?.keepsBlobs === true) toGet.push(blobId);
    else return missed(blobId, serverKeeps(facts) ? "the server does not keep it" : "it was not uploaded");
  }
  if (toFetch.length > 0) return { kind: "fetch", blobIds: toFetch };
  if (toGet.length > 0) return { kind: "get", blobIds: toGet };
  return isAwaited ? WAIT : undefined;
}

/** Why an answer is none; "fetch" when the bytes lie beside the stream. */
function learnAnswer(
  found: Found,
  blobId: string,
  { blobData, error, notFound, uploaded }: GetBlobResult,
  isLookedFor: boolean,
): string | undefined {
  if (notFound) return "the client does not have it";
  if (error !== undefined) return error;
  if (uploaded) return isLookedFor ? "the client sent nothing" : "fetch";
  if (blobData === undefined) return "the client sent nothing";
  if (found.idOf(blobData) !== blobId) return "the client sent other bytes";
  learn(found, blobId, blobData);
  return undefined;
}

function missed(blobId: string, why: string): Decision {
  return endFailed("blob_missing", `a part of the conversation is missing (blob ${blobId}): ${why}`);
}
