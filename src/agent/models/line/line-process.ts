/**
 * The line: a process that holds the connections to providers beside the server, and has no logic of its own.
 *
 * It sends a request as it is given, keeps all bytes of the answer from the first, and gives them to a reader from the first. When the server
 * dies, the call continues; the next server finds it by its name and reads it again (G6). It ends a call when the server says that the answer
 * is on disk, when the server cancels it, when no reader came for the grace period, and when a call beyond the bounds has no reader. It ends
 * them all when it is told to end (SIGTERM) and no server is here.
 *
 * Up to the bounds the provider is read at full speed, whatever the reader does. Beyond them a call is read as fast as its reader takes it,
 * and cannot be read again. Time is counted in ticks of a running process: a machine that slept has lost none of the grace period.
 *
 * Invariants: a call has one reader at a time, of the highest host epoch (D1); nothing of a call, a header or a secret is written anywhere.
 */
import { closeSync, readFileSync, writeSync } from "node:fs";
import {
  type ClientRequest,
  createServer,
  type IncomingMessage,
  request as httpRequest,
  type Server,
  type ServerResponse,
} from "node:http";
import { request as httpsRequest } from "node:https";
import { buffer } from "node:stream/consumers";
import { KeptBytes } from "./kept-bytes.ts";
import {
  type AnswerHead,
  END_TRAILER,
  EPOCH_HEADER,
  FENCED,
  GONE,
  HEAD_HEADER,
  HEADER_BYTES_MAX,
  headIn,
  type HeldCall,
  isSecret,
  LINE_VERSION,
  type LineCounts,
  type LineSettings,
  namesIn,
  NO_ANSWER,
  NOT_HELD,
  pairsOf,
  proofOf,
  SECRET_HEADER,
  settingsIn,
  type StreamName,
  type Word,
  wordIn,
} from "./line-wire.ts";

const TICK_MS = 1_000;
/** A cancel that overtakes the request it cancels is remembered for so long. */
const CANCELLED_TICKS = 60;
/** How far a reader of a call beyond the bounds may be behind. */
const BEHIND_BYTES_MAX = 1024 * 1024;

interface Reader {
  readonly response: ServerResponse;
  at: number;
  isFull: boolean;
}

interface Call {
  readonly name: string;
  readonly label: string;
  readonly stream: StreamName;
  epoch: number;
  request: ClientRequest;
  answer: IncomingMessage | undefined;
  head: AnswerHead | undefined;
  /** Why there is no answer. */
  failure: string | undefined;
  end: "whole" | "broken" | undefined;
  readonly kept: KeptBytes;
  reader: Reader | undefined;
  aloneTicks: number;
  isResumable: boolean;
}

export class Line {
  readonly #settings: LineSettings;
  readonly #server: Server;
  readonly #calls = new Map<string, Call>();
  readonly #cancelled = new Map<string, number>();
  readonly #stays = new Set<ServerResponse>();
  readonly #ticking: NodeJS.Timeout;
  readonly #onEnd: () => void;
  #bytes = 0;
  #reattached = 0;
  #expired = 0;
  #idleTicks = 0;
  #isLeaving = false;
  #said = "";

  constructor(settings: LineSettings, onEnd: () => void) {
    this.#settings = settings;
    this.#onEnd = onEnd;
    const options = { maxHeaderSize: HEADER_BYTES_MAX, requestTimeout: 0, keepAliveTimeout: 60_000 };
    this.#server = createServer(options, (request, response) => void this.#serve(request, response));
    this.#ticking = setInterval(() => this.#tick(), TICK_MS);
  }

  listen(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen(this.#settings.socketPath, resolve);
    });
  }

  /** Ends as soon as no server is here: the machine, or its service manager, wants everything to end. */
  leave(): void {
    this.#isLeaving = true;
  }

  close(): void {
    clearInterval(this.#ticking);
    for (const call of this.#calls.values()) this.#drop(call);
    this.#server.close();
    this.#server.closeAllConnections();
    this.#onEnd();
  }

  get counts(): LineCounts {
    const [calls, bytes] = [this.#calls.size, this.#bytes];
    return { calls, bytes, reattached: this.#reattached, expired: this.#expired };
  }

  #tick(): void {
    const { graceMs, idleMs } = this.#settings;
    for (const call of this.#calls.values()) {
      call.aloneTicks = call.reader === undefined ? call.aloneTicks + 1 : 0;
      if (call.aloneTicks * TICK_MS >= graceMs) this.#expire(call);
    }
    for (const [name, ticks] of this.#cancelled)
      if (ticks > 1) this.#cancelled.set(name, ticks - 1);
      else this.#cancelled.delete(name);
    this.#tellCounts();
    const isIdle = this.#stays.size === 0 && this.#calls.size === 0;
    this.#idleTicks = isIdle ? this.#idleTicks + 1 : 0;
    const isLeft = this.#isLeaving && this.#stays.size === 0;
    if (isLeft || this.#idleTicks * TICK_MS >= idleMs) this.close();
  }

  #tellCounts(): void {
    const said = `${JSON.stringify(this.counts)}\n`;
    if (said === this.#said) return;
    this.#said = said;
    for (const stay of this.#stays) stay.write(said);
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.on("error", () => response.destroy());
    try {
      const { pathname, searchParams } = new URL(request.url ?? "/", "http://line");
      if (pathname === "/hello") {
        const proof = proofOf(this.#settings.secret, searchParams.get("nonce") ?? "");
        answer(response, 200, { version: LINE_VERSION, pid: process.pid, proof });
      } else if (!isSecret(request.headers[SECRET_HEADER], this.#settings.secret)) {
        answer(response, 403, {});
      } else await this.#obey(pathname, request, response);
    } catch {
      // A request that cannot be read, or whose sender has gone.
      response.destroy();
    }
  }

  async #obey(path: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const epoch = Number(request.headers[EPOCH_HEADER] ?? -1);
    const name = /^\/calls\/(?<name>[0-9a-f]{8,128})$/.exec(path)?.groups?.["name"];
    if (path === "/stay") this.#stay(response);
    else if (path === "/held") answer(response, 200, { held: this.#held() });
    else if (path === "/find") this.#find(namesIn(await bytesOf(request)), epoch, response);
    else if (path === "/words") {
      const { word, names } = wordIn(await bytesOf(request));
      for (const one of names) this.#hear(word, one, epoch);
      answer(response, 200, {});
    } else if (name === undefined) answer(response, 404, {});
    else {
      const given = request.method === "POST" ? await bytesOf(request) : undefined;
      const held = this.#calls.get(name);
      if (held !== undefined) this.#attach(held, epoch, response);
      else if (given === undefined) answer(response, NOT_HELD, {});
      else if (this.#cancelled.has(name)) answer(response, GONE, {});
      else this.#begin(name, epoch, given, response);
    }
  }

  #stay(response: ServerResponse): void {
    response.writeHead(200);
    response.write(`${JSON.stringify(this.counts)}\n`);
    this.#stays.add(response);
    response.once("close", () => this.#stays.delete(response));
  }

  #held(): readonly HeldCall[] {
    return [...this.#calls.values()].map(({ name, stream, isResumable, failure, end }) => {
      return { name, stream, isGood: isResumable && failure === undefined && end !== "broken" };
    });
  }

  #find(names: readonly string[], epoch: number, response: ServerResponse): void {
    const held = names.map((name) => {
      const call = this.#calls.get(name);
      return call?.isResumable === true && epoch >= call.epoch ? call.label : null;
    });
    answer(response, 200, { held });
  }

  #hear(word: Word, name: string, epoch: number): void {
    const call = this.#calls.get(name);
    if (call !== undefined && epoch < call.epoch) return;
    if (call === undefined) {
      if (word === "cancel") this.#cancelled.set(name, CANCELLED_TICKS);
    } else if (word === "detach") this.#detach(call);
    else this.#drop(call);
  }

  #begin(name: string, epoch: number, given: Buffer, response: ServerResponse): void {
    const lineEnd = given.indexOf(10);
    const { method, url, headers, label, stream } = headIn(given.subarray(0, lineEnd));
    const body = given.subarray(lineEnd + 1);
    const send = url.startsWith("https:") ? httpsRequest : httpRequest;
    // What the line keeps is what the server reads: nothing between them unpacks it.
    const sent = { ...headers, "accept-encoding": "identity", "content-length": String(body.length) };
    const request = send(url, { method, headers: sent });
    const call: Call = {
      name,
      label,
      stream,
      epoch,
      request,
      answer: undefined,
      head: undefined,
      failure: undefined,
      end: undefined,
      kept: new KeptBytes(),
      reader: undefined,
      aloneTicks: 0,
      isResumable: true,
    };
    this.#calls.set(name, call);
    request.on("response", (answered) => this.#answered(call, answered));
    request.on("error", (error) => this.#failed(call, error));
    request.end(body);
    this.#read(call, response);
  }

  #answered(call: Call, answered: IncomingMessage): void {
    forgetHeaders(call.request);
    call.answer = answered;
    call.head = { status: answered.statusCode ?? 0, headers: pairsOf(answered.rawHeaders) };
    answered.on("data", (bytes: Buffer) => this.#keep(call, bytes));
    answered.on("end", () => this.#ended(call, answered.complete ? "whole" : "broken"));
    answered.on("error", () => this.#ended(call, "broken"));
    answered.on("close", () => this.#ended(call, "broken"));
    this.#pump(call);
  }

  #failed(call: Call, error: Error): void {
    if (call.head !== undefined) return;
    call.failure = "code" in error && typeof error.code === "string" ? error.code : "";
    this.#pump(call);
  }

  #keep(call: Call, bytes: Buffer): void {
    call.kept.push(bytes);
    this.#bytes += bytes.length;
    const { callBytesMax, bytesMax } = this.#settings;
    if (call.kept.length > callBytesMax || this.#bytes > bytesMax) call.isResumable = false;
    if (!call.isResumable && call.reader === undefined) this.#expire(call);
    else this.#pump(call);
  }

  #ended(call: Call, end: "whole" | "broken"): void {
    call.end ??= end;
    this.#pump(call);
  }

  /** A second reader is one that has taken the first one's place (D1). */
  #attach(call: Call, epoch: number, response: ServerResponse): void {
    if (epoch < call.epoch) answer(response, FENCED, {});
    else if (!call.isResumable) answer(response, GONE, {});
    else {
      call.epoch = epoch;
      this.#reattached++;
      this.#detach(call);
      this.#read(call, response);
    }
  }

  #read(call: Call, response: ServerResponse): void {
    const reader: Reader = { response, at: 0, isFull: false };
    call.reader = reader;
    response.once("close", () => {
      if (call.reader === reader) this.#detach(call);
    });
    response.on("drain", () => {
      reader.isFull = false;
      if (call.reader === reader) this.#pump(call);
    });
    this.#pump(call);
  }

  #detach(call: Call): void {
    const { reader } = call;
    call.reader = undefined;
    call.aloneTicks = 0;
    if (reader !== undefined && !reader.response.writableEnded) reader.response.destroy();
    if (!call.isResumable) this.#expire(call);
  }

  /** Gives the reader what it can take. */
  #pump(call: Call): void {
    const { reader, head, failure } = call;
    if (reader === undefined) return;
    const { response } = reader;
    if (failure !== undefined) {
      answer(response, NO_ANSWER, { code: failure });
      return;
    }
    if (head === undefined || response.writableEnded) return;
    if (!response.headersSent) begin(response, head);
    while (!reader.isFull && reader.at < call.kept.length) {
      const piece = call.kept.pieceAt(reader.at);
      reader.at += piece.length;
      reader.isFull = !response.write(piece);
    }
    if (!call.isResumable) this.#forgetRead(call, reader.at);
    if (reader.at < call.kept.length || call.end === undefined) return;
    response.addTrailers({ [END_TRAILER]: call.end });
    response.end();
  }

  /** Beyond the bounds nothing is kept that was read, and the provider waits for the reader. */
  #forgetRead(call: Call, at: number): void {
    this.#bytes -= call.kept.forgetBefore(at);
    if (call.kept.length - at > BEHIND_BYTES_MAX) call.answer?.pause();
    else call.answer?.resume();
  }

  #expire(call: Call): void {
    this.#expired++;
    this.#drop(call);
  }

  #drop(call: Call): void {
    if (!this.#calls.delete(call.name)) return;
    this.#bytes -= call.kept.heldBytes;
    call.reader?.response.destroy();
    call.reader = undefined;
    // What still arrives of it is nobody's.
    call.answer?.removeAllListeners("data");
    if (call.end === undefined) call.request.destroy();
  }
}

function begin(response: ServerResponse, head: AnswerHead): void {
  const said = Buffer.from(JSON.stringify(head)).toString("base64url");
  response.writeHead(200, { [HEAD_HEADER]: said, trailer: END_TRAILER });
  response.flushHeaders();
}

function answer(response: ServerResponse, status: number, said: unknown): void {
  if (response.headersSent) return;
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(said));
}

/** The API key is among them, and the request is reachable for as long as its answer is. */
function forgetHeaders(request: ClientRequest): void {
  Reflect.set(request, "_header", " ");
  for (const symbol of Object.getOwnPropertySymbols(request))
    if (symbol.description === "kOutHeaders") Reflect.set(request, symbol, null);
}

async function bytesOf(request: IncomingMessage): Promise<Buffer> {
  const bytes = await buffer(request);
  if (!request.complete) throw new Error("the sender has gone");
  return bytes;
}

/** Settings come by this descriptor, and the word that the line listens goes back by it. */
const SETTINGS_FD = 3;

function run(): void {
  const line = new Line(settingsIn(readFileSync(SETTINGS_FD)), () => process.exit(0));
  process.umask(0o177);
  // Those are for the server, whose terminal it may share.
  for (const signal of ["SIGHUP", "SIGINT"]) process.on(signal, () => undefined);
  process.on("SIGTERM", () => line.leave());
  const ready = (): void => {
    writeSync(SETTINGS_FD, "ready\n");
    closeSync(SETTINGS_FD);
  };
  void line.listen().then(ready, () => process.exit(1));
}

if (import.meta.main) run();
