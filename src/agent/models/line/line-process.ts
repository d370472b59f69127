/**
 * The line: a process that holds the connections to providers beside the server, and has no logic of its own.
 *
 * It sends a request as it is given, keeps all bytes of the answer from the first, and gives them to a reader from the first. When the server
 * dies, the call continues; the next server finds it by its name and reads it again (G6). It ends a call when the server says that the answer
 * is on disk, when the server cancels it, when no reader came for the grace period, and when a call beyond the bounds has no reader. It ends
 * them all on SIGTERM if no server is here.
 *
 * Up to the bounds the provider is read at full speed, whatever the reader does. Beyond them a call is read as fast as its reader takes it,
 * and cannot be read again. Time is counted in ticks of a running process: a machine that slept has lost none of the grace period.
 *
 * Invariants: a call has one reader at a time, of the highest host epoch (D1); nothing of a call, a header or a secret is written anywhere.
 */
import { closeSync, readFileSync, writeSync } from "node:fs";
import { type ClientRequest, type IncomingMessage, request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import { createServer, type Server, type Socket } from "node:net";
import { KeptBytes } from "./kept-bytes.ts";
import { framed, Frames } from "./line-frames.ts";
import {
  type CallHead,
  callIn,
  type Fields,
  fieldsIn,
  type HeldCall,
  isFenced,
  isSecret,
  LINE_VERSION,
  type LineCounts,
  type LineSettings,
  namesIn,
  type NoAnswer,
  proofOf,
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

const NO_BYTES = Buffer.alloc(0);

interface Reader {
  readonly socket: Socket;
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
  end: "whole" | "broken" | undefined;
  /** All that a reader is given, from the head to the end. */
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
  readonly #sockets = new Set<Socket>();
  readonly #stays = new Set<Socket>();
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
    this.#server = createServer((socket) => this.#accept(socket));
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
    for (const socket of this.#sockets) socket.destroy();
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

  /** A question, then the body. */
  #accept(socket: Socket): void {
    this.#sockets.add(socket);
    socket.once("close", () => this.#sockets.delete(socket));
    socket.on("error", () => socket.destroy());
    const frames = new Frames();
    let asked: Buffer | undefined;
    socket.on("data", (bytes) => {
      for (const frame of frames.push(bytes))
        if (asked === undefined) asked = frame;
        else {
          this.#hearOut(asked, frame, socket);
          asked = undefined;
        }
    });
  }

  #hearOut(question: Buffer, body: Buffer, socket: Socket): void {
    try {
      const asked = fieldsIn(question.toString());
      if (asked["ask"] !== "hello" && !isSecret(asked["secret"], this.#settings.secret)) socket.destroy();
      else this.#obey(asked, body, socket);
    } catch {
      // A question that cannot be read.
      socket.destroy();
    }
  }

  #obey(asked: Fields, body: Buffer, socket: Socket): void {
    const epoch = Number(asked["epoch"] ?? -1);
    switch (asked["ask"]) {
      case "hello": {
        const proof = proofOf(this.#settings.secret, String(asked["nonce"]));
        return answer(socket, { version: LINE_VERSION, pid: process.pid, proof });
      }
      case "stay":
        return this.#stay(socket);
      case "held":
        return answer(socket, { held: this.#held() });
      case "find":
        return answer(socket, { held: this.#find(namesIn(asked), epoch) });
      case "words": {
        const word = wordIn(asked);
        for (const name of namesIn(asked)) this.#hear(word, name, epoch);
        return answer(socket, {});
      }
      case "attach": {
        const name = String(asked["name"]);
        const held = this.#calls.get(name);
        if (held !== undefined) this.#attach(held, epoch, socket);
        else if (asked["call"] === undefined || this.#cancelled.has(name)) socket.destroy();
        else this.#begin(name, epoch, callIn(asked), body, socket);
        return;
      }
      default:
        socket.destroy();
    }
  }

  #stay(socket: Socket): void {
    socket.write(`${JSON.stringify(this.counts)}\n`);
    this.#stays.add(socket);
    socket.once("close", () => this.#stays.delete(socket));
  }

  #held(): readonly HeldCall[] {
    return [...this.#calls.values()].map(({ name, stream, isResumable, end }) => {
      return { name, stream, isGood: isResumable && end !== "broken" };
    });
  }

  #find(names: readonly string[], epoch: number): readonly (string | null)[] {
    return names.map((name) => {
      const call = this.#calls.get(name);
      return call?.isResumable === true && !isFenced(epoch, call) ? call.label : null;
    });
  }

  #hear(word: Word, name: string, epoch: number): void {
    const call = this.#calls.get(name);
    if (call !== undefined && isFenced(epoch, call)) return;
    if (call === undefined) {
      if (word === "cancel") this.#cancelled.set(name, CANCELLED_TICKS);
    } else if (word === "detach") this.#detach(call);
    else this.#drop(call);
  }

  #begin(name: string, epoch: number, head: CallHead, body: Buffer, socket: Socket): void {
    const { method, url, headers, label, stream } = head;
    const send = url.startsWith("https:") ? httpsRequest : httpRequest;
    // What the line keeps is what the server reads: nothing between them unpacks it.
    const sent = { ...headers, "accept-encoding": "identity", "content-length": String(body.length) };
    const request = send(url, { method });
    // One by one, and not among the options: the agent keeps those for as long as the connection lives, with the API key (E4).
    for (const [header, value] of Object.entries(sent)) request.setHeader(header, value);
    const call: Call = {
      name,
      label,
      stream,
      epoch,
      request,
      answer: undefined,
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
    this.#read(call, socket);
  }

  #answered(call: Call, answered: IncomingMessage): void {
    forgetHeaders(call.request);
    call.answer = answered;
    const { statusCode: status = 0, headers } = answered;
    this.#keep(call, Buffer.from(JSON.stringify({ status, headers })));
    answered.on("data", (bytes: Buffer) => this.#keep(call, bytes));
    answered.on("end", () => this.#ended(call, answered.complete ? "whole" : "broken"));
    answered.on("error", () => this.#ended(call, "broken"));
    answered.on("close", () => this.#ended(call, "broken"));
  }

  #failed(call: Call, error: Error): void {
    if (call.answer !== undefined) return;
    const failure = "code" in error && typeof error.code === "string" ? error.code : "";
    call.end = "broken";
    this.#keep(call, Buffer.from(JSON.stringify({ failure } satisfies NoAnswer)));
  }

  #keep(call: Call, bytes: Buffer): void {
    // What still arrives of a call that is not held is not kept.
    if (this.#calls.get(call.name) !== call) return;
    const frame = framed(bytes);
    call.kept.push(frame);
    this.#bytes += frame.length;
    const { callBytesMax, bytesMax } = this.#settings;
    if (call.kept.length > callBytesMax || this.#bytes > bytesMax) call.isResumable = false;
    if (!call.isResumable && call.reader === undefined) this.#expire(call);
    else this.#pump(call);
  }

  #ended(call: Call, end: "whole" | "broken"): void {
    if (call.end !== undefined) return;
    call.end = end;
    if (end === "whole") this.#keep(call, NO_BYTES);
    else this.#pump(call);
  }

  /** A second reader is one that has taken the first one's place (D1). */
  #attach(call: Call, epoch: number, socket: Socket): void {
    if (isFenced(epoch, call) || !call.isResumable) socket.destroy();
    else {
      call.epoch = epoch;
      this.#reattached++;
      this.#detach(call);
      this.#read(call, socket);
    }
  }

  #read(call: Call, socket: Socket): void {
    const reader: Reader = { socket, at: 0, isFull: false };
    call.reader = reader;
    socket.once("close", () => {
      if (call.reader === reader) this.#detach(call);
    });
    socket.on("drain", () => {
      reader.isFull = false;
      if (call.reader === reader) this.#pump(call);
    });
    this.#pump(call);
  }

  #detach(call: Call): void {
    const { reader } = call;
    call.reader = undefined;
    call.aloneTicks = 0;
    if (reader !== undefined && !reader.socket.writableEnded) reader.socket.destroy();
    if (!call.isResumable) this.#expire(call);
  }

  /** Gives the reader what it can take. */
  #pump(call: Call): void {
    const { reader } = call;
    if (reader === undefined) return;
    const { socket } = reader;
    while (!reader.isFull && reader.at < call.kept.length) {
      const piece = call.kept.pieceAt(reader.at);
      reader.at += piece.length;
      reader.isFull = !socket.write(piece);
    }
    if (!call.isResumable) this.#forgetRead(call, reader.at);
    if (reader.at === call.kept.length && call.end !== undefined) socket.end();
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
    call.reader?.socket.destroy();
    call.reader = undefined;
    if (call.end === undefined) call.request.destroy();
  }
}

function answer(socket: Socket, said: unknown): void {
  socket.end(JSON.stringify(said));
}

/** The API key is among them, and the request is reachable for as long as its answer is. */
function forgetHeaders(request: ClientRequest): void {
  Reflect.set(request, "_header", " ");
  for (const symbol of Object.getOwnPropertySymbols(request))
    if (symbol.description === "kOutHeaders") Reflect.set(request, symbol, null);
}

/** Settings come by this descriptor, and the word that the line listens goes back by it. */
const SETTINGS_FD = 3;

function run(): void {
  const line = new Line(settingsIn(readFileSync(SETTINGS_FD, "utf8")), () => process.exit(0));
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
