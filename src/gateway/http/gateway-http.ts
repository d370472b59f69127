/**
 * The gateway's HTTP: from a request on a port to an answer in OpenAI's shape, errors included.
 *
 * The order is that of cost: path, sign-in, the API key's allowance, the body, its meaning; only then is anything of a session touched.
 */
import { performance } from "node:perf_hooks";
import { PassingSet } from "../../protocol/passing.ts";
import type { ResponseHeaders } from "../../transport/node/exchange.ts";
import {
  type AnswerForm,
  type AnswerRequest,
  CHAT_FORM,
  type Door,
  errorBody,
  GatewayError,
  ignoredHeader,
  invalidRequest,
  type ListedModel,
  parseFramePlace,
} from "../openai/index.ts";
import { countTokens, MESSAGE_FORM } from "../messages/index.ts";
import { noConversation, noKey, noResponse } from "../refusals.ts";
import { Allowances, mayUse, modelNotFound, type SpentElsewhere } from "./allowances.ts";
import { answerPath, parseAnswerName } from "./answer-name.ts";
import type { Answer, EventsCall, GatewayAnswers, KeptAnswers, StopCall } from "./answers.ts";
import { ConversationRoutes } from "./conversation-routes.ts";
import { chatDoor, type DoorHttp, messagesDoor, responsesDoor } from "./door-http.ts";
import { ResponseRoutes, showsSealedOf, startingAfterOf } from "./response-routes.ts";
import { responseForm } from "../responses/index.ts";
import type { PassedLimits } from "../passed/passed-limits.ts";
import { PassedRoute, type PassedRouteOptions } from "../passed/passed-route.ts";
import { BodyMemory } from "./body-memory.ts";
import { CallEnded, HttpCall } from "./http-call.ts";
import { HTTP_LIMITS, type HttpLimits } from "./http-limits.ts";
import { JsonBodies } from "./json-body.ts";
import type { GatewayMount, Guest, MountedCall } from "./mounted.ts";
import { idempotencyKeyOf, lastEventIdOf, patienceMsOf } from "./request-headers.ts";
import { modelAnswer, modelsAnswer, unlisted } from "./model-answers.ts";
import { NO_PROVIDERS, type ProviderSide } from "./provider-side.ts";
import { refuse, report, signInError } from "./refusing.ts";
import { noUpgrade, type Route, routeOf, wrongBaseUrl } from "./routes.ts";
import { type Asker, hashInSession, SaidRetries } from "./said-retries.ts";
import { streamAnswer, type StreamedAnswer } from "./streamed-answer.ts";
import { shuttingDown, ResponseProgress } from "./response-progress.ts";
import { collectAnswer } from "./whole-answer.ts";

export interface GatewayHttpOptions {
  readonly answers: GatewayAnswers;
  /** Answers by the ids of their responses. Default: none is kept. */
  readonly responses?: KeptAnswers;
  /** Default: nothing is known of them, and nothing but conversations is served. */
  readonly providers?: ProviderSide;
  /** Whether requests may name images elsewhere; they are passed on, never fetched here. */
  readonly allowRemoteImages?: boolean;
  /** Rates that hold over several nodes. Default: they are counted here. */
  readonly rates?: SpentElsewhere;
  /** For requests that are passed on. Default: API keys with tokens a day have none passed on. */
  readonly spending?: PassedRouteOptions["spending"];
  readonly limits?: Partial<HttpLimits>;
  /** Of requests that are passed on to providers. */
  readonly passedLimits?: Partial<PassedLimits>;
  /** Milliseconds since 1970. */
  readonly now?: () => number;
}

/** One request on its way. */
interface Visit {
  readonly mounted: MountedCall;
  readonly call: HttpCall;
  readonly guest: Guest;
}

const JSON_HEADERS = Object.freeze({ "content-type": "application/json" });

export function gatewayHttp(options: GatewayHttpOptions): GatewayMount {
  const { answers, providers = NO_PROVIDERS, responses = NONE_KEPT, allowRemoteImages = false } = options;
  const doors: Readonly<Record<Door, DoorHttp>> = {
    chat: chatDoor({ allowRemoteImages }),
    responses: responsesDoor({ allowRemoteImages }, responses),
    messages: messagesDoor({ allowRemoteImages }),
  };
  const routes = new ResponseRoutes(responses, answers);
  const conversations = new ConversationRoutes(responses.conversations);
  const { passedLimits, spending } = options;
  const limits = { ...HTTP_LIMITS, ...options.limits };
  const memory = new BodyMemory(limits.bodiesBytesMax);
  const bodies = new JsonBodies(limits, memory);
  const passed = new PassedRoute({ providers, memory, namesOf: namesFor, limits: passedLimits, spending });
  const allowances = new Allowances(() => performance.now(), options.rates);
  const saidRetries = new SaidRetries(() => performance.now());
  const createdS = Math.floor((options.now ?? Date.now)() / 1000);
  const open = new PassingSet<HttpCall>();

  async function serve(mounted: MountedCall, call: HttpCall): Promise<void> {
    const { exchange } = mounted;
    if (exchange.header("upgrade") !== undefined) throw noUpgrade();
    const route = routeOf(exchange.method, exchange.path);
    mounted.tell({ route: route.name });
    const guest = await mounted.signIn().catch((cause: unknown) => {
      throw signInError(cause);
    });
    if (mounted.isStopped()) throw shuttingDown();
    await follow(route, { mounted, call, guest });
  }

  async function follow(route: Route, visit: Visit): Promise<void> {
    const { call, guest, mounted } = visit;
    switch (route.name) {
      case "chat":
      case "responses":
      case "messages": {
        const asker = { principal: guest.principal, bodyHash: "" };
        return ask(visit, asker, doors[route.name]).catch((cause: unknown) => {
          saidRetries.refused(asker, cause);
          throw cause;
        });
      }
      case "response":
        return response(visit, route.id);
      case "response_items":
        return respondJson(
          call,
          await call.wait(routes.inputItems(guest.principal, route.id, mounted.exchange)),
        );
      case "response_cancel":
        return respondJson(call, await call.wait(routes.cancel(guest.principal, route.id)));
      case "response_delete":
        return respondJson(call, await call.wait(routes.remove(guest.principal, route.id, mounted.exchange)));
      case "conversations":
      case "conversation":
      case "conversation_items":
      case "conversation_item": {
        await enter(visit, []);
        const { principal } = guest;
        const body = async () => (await bodies.read(call, principal, doors.responses.hash)).value;
        const made = conversations.follow(route, { principal, exchange: mounted.exchange, body });
        return respondJson(call, await call.wait(made));
      }
      case "message_tokens":
        return tokens(visit);
      case "chat_stop": {
        const idempotencyKey = idempotencyKeyOf(mounted.exchange);
        if (idempotencyKey === undefined) throw noKey();
        await enter(visit, [answerTo(idempotencyKey)], { isReturning: true });
        await call.wait(answers.stop({ principal: guest.principal, idempotencyKey }));
        return respondJson(call, { object: "answer", stopped: true });
      }
      case "events":
        return events(visit, { streamId: route.streamId });
      case "answer":
        return events(visit, parseAnswerName(route.answer));
      case "answer_stop": {
        const { streamId, head } = parseAnswerName(route.answer);
        return stop(visit, { streamId, fromEvent: head.fromEvent });
      }
      case "passed":
        await enter(visit, []);
        return passed.serve(call, guest, route.path);
      case "models":
        return respondJson(call, modelsAnswer(mounted.exchange, modelsOf(guest), createdS));
      case "model": {
        const id = answers.modelId(route.id);
        if (id === undefined || !mayUse(guest.limits, namesOf(id))) throw modelNotFound();
        const model = modelsOf(guest).find((one) => one.id === id) ?? unlisted(id);
        return respondJson(call, modelAnswer(mounted.exchange, model, createdS));
      }
      case "stop":
        return stop(visit, { streamId: route.streamId });
      case "forget":
        await call.wait(answers.forgetConversation(guest.principal, route.streamId));
        return respondJson(call, { id: route.streamId, object: "conversation.deleted", deleted: true });
    }
  }

  async function stop({ mounted, call, guest }: Visit, which: Omit<StopCall, "principal">): Promise<void> {
    const { streamId } = which;
    mounted.tell({ streamId });
    await call.wait(answers.stop({ principal: guest.principal, ...which }));
    respondJson(call, { id: streamId, object: "stream", stopped: true });
  }

  function modelsOf({ principal, limits: own }: Guest): readonly ListedModel[] {
    return answers.models(principal).filter(({ id }) => mayUse(own, namesOf(id)));
  }

  /** A model without its provider's name is the same one, where nothing else is called so. */
  function namesOf(id: string): readonly string[] {
    const bare = id.slice(id.indexOf("/") + 1);
    return answers.modelId(bare) === id ? [id, bare] : [id];
  }

  function namesFor(name: string): readonly string[] {
    return namesOf(answers.modelId(name) ?? name);
  }

  async function ask(visit: Visit, asker: Asker, door: DoorHttp): Promise<void> {
    const { mounted, call, guest } = visit;
    const { exchange, requestId } = mounted;
    const { principal } = guest;
    const idempotencyKey = idempotencyKeyOf(exchange);
    const patienceMs = patienceMsOf(exchange);
    const isReturning = await hasPaid(visit, idempotencyKey);
    const reads = await enter(visit, idempotencyKey === undefined ? [] : [answerTo(idempotencyKey)], {
      isReturning,
    });
    const { value, hash, byteCount, release } = await bodies.read(call, principal, door.hash);
    asker.bodyHash = hashInSession(exchange, hash);
    const asked = door.read(value, principal, exchange.header("anthropic-beta"));
    const { request, form, atOnce, isSealedShown, call: more } = await call.wait(asked);
    const named = guest.limits?.models === undefined ? [] : [request.model, ...request.fallbacks];
    if (!named.every((name) => mayUse(guest.limits, namesFor(name)))) throw modelNotFound();
    const answer = await accepted(
      call,
      answers.chat({
        ...more,
        principal,
        apiKeyId: guest.apiKeyId,
        request,
        bodyHash: asker.bodyHash,
        bodyBytes: byteCount,
        idempotencyKey,
        retrySign: saidRetries.signOf(exchange, asker),
        patienceMs,
        parkedMax: guest.limits?.parked,
        tokensPerDay: guest.limits?.tokensPerDay,
        requestId,
        signal: call.signal,
      }),
    );
    reads.add(streamName(answer.streamId));
    release();
    const streamed = begin(visit, answer, form);
    const resume = door.resumePath(answer, isSealedShown);
    const headers = (): ResponseHeaders => ({ ...headersOf(answer, resume), ...chatHeaders(request) });
    if (atOnce !== undefined) {
      if (answer.kept !== undefined) await call.wait(answer.kept());
      streamed.progress.isComplete = true;
      respondJson(call, atOnce(answer), headers());
    } else if (request.stream) {
      await streamAnswer(streamed, headers);
    } else {
      const whole = await collectAnswer(streamed);
      respondJson(call, whole, headers());
    }
  }

  /** A request that was accepted before, under its Idempotency-Key, returns to its answer. Asked only where a rate limits requests. */
  async function hasPaid({ call, guest }: Visit, idempotencyKey: string | undefined): Promise<boolean> {
    if (idempotencyKey === undefined || guest.limits?.ratePerMinute === undefined) return false;
    return call.wait(answers.isKnown({ principal: guest.principal, idempotencyKey }));
  }

  /** What was not passed on, and what the provider says of its limits. */
  function chatHeaders({ model: name, wishes }: AnswerRequest): ResponseHeaders {
    const model = answers.modelId(name) ?? name;
    const ignored = ignoredHeader([...providers.unspoken(model, wishes.words), ...wishes.ignored]);
    return {
      ...providers.rateLimits(model),
      ...(ignored === undefined ? {} : { "x-holdfast-ignored": ignored }),
    };
  }

  async function events(visit: Visit, which: Pick<EventsCall, "streamId" | "head">): Promise<void> {
    const { mounted, call, guest } = visit;
    await enter(visit, [streamName(which.streamId)], { isReturning: true });
    const given = lastEventIdOf(mounted.exchange) ?? "";
    // Nothing yet is where readers begin, with the role. A client whose response broke between its head and its first frame says it with an empty id.
    const isNew = given === "" || given === "0";
    const after = isNew ? undefined : parseFramePlace(given);
    if (!isNew && after === undefined) {
      throw invalidRequest("Last-Event-ID", "Last-Event-ID is the id of a frame of this stream's answer.");
    }
    const { principal } = guest;
    const { signal } = call;
    const answer = await accepted(call, answers.events({ principal, ...which, after, signal }));
    const form = answer.head.door === "messages" ? MESSAGE_FORM : CHAT_FORM;
    await streamAnswer({ ...begin(visit, answer, form), after }, () => headersOf(answer));
  }

  async function tokens(visit: Visit): Promise<void> {
    const { call, guest } = visit;
    const { principal } = guest;
    await enter(visit, []);
    const { value } = await bodies.read(call, principal, doors.messages.hash);
    const { request } = await doors.messages.read(value, principal);
    if (!mayUse(guest.limits, namesFor(request.model))) throw modelNotFound();
    respondJson(call, { input_tokens: countTokens(request) });
  }

  async function response(visit: Visit, id: string): Promise<void> {
    const { mounted, call, guest } = visit;
    const { principal } = guest;
    const startingAfter = startingAfterOf(mounted.exchange);
    const { object, asked, streamId } = await call.wait(routes.found(principal, id));
    const isSealedShown = showsSealedOf(mounted.exchange);
    if (startingAfter === undefined) return respondJson(call, object(isSealedShown));
    await enter(visit, [streamName(streamId)], { isReturning: true });
    const { signal } = call;
    const answer = await accepted(call, responses.read({ principal, id, startingAfter, signal }));
    const streamed = begin(visit, answer, responseForm(asked, { startingAfter, isSealedShown }));
    return streamAnswer(streamed, () => headersOf(answer, doors.responses.resumePath(answer, isSealedShown)));
  }

  /** Returns what it reads, to be added to when more is known. */
  async function enter(
    { call, guest }: Visit,
    names: readonly string[],
    { isReturning = false } = {},
  ): Promise<Set<string>> {
    const reads = new Set(names);
    call.onOver(await allowances.enter(guest, { reads, isReturning, giveWay: () => call.destroy() }));
    return reads;
  }

  function begin({ mounted, call }: Visit, answer: Answer, form: AnswerForm = CHAT_FORM): StreamedAnswer {
    const { streamId, source } = answer;
    mounted.tell({ streamId, answer: source });
    const progress = new ResponseProgress((error, cause) => report(mounted, error, cause));
    call.onOver((isWhole) => answer.delivered(isWhole && progress.isComplete));
    call.onArrived((arrival) => progress.isComplete && answer.arrived?.(arrival));
    return { call, answer, form, progress, limits };
  }

  function visited(mounted: MountedCall): HttpCall {
    const call = new HttpCall(mounted.exchange, limits.stalledMs);
    call.onOver(open.add(call));
    return call;
  }

  return {
    prefix: "/v1/",
    handle(mounted) {
      const call = visited(mounted);
      serve(mounted, call)
        .catch((cause: unknown) => refuse(mounted, call, cause))
        // A mistake in progress of a mistake costs this request, not the process.
        .catch((bug: unknown) => {
          mounted.onBug(bug);
          call.destroy();
        });
    },
    strayed: (baseUrl) => ({ ...errorBody(wrongBaseUrl(baseUrl)) }),
    refuse(mounted, { status, message }) {
      const error = new GatewayError({ status, type: "permission_error", code: "foreign", message });
      refuse(mounted, visited(mounted), error);
    },
    close() {
      for (const call of open) call.shutDown();
    },
  };
}

/** An answer whose client hung up before it was accepted has not been delivered. */
async function accepted(call: HttpCall, asked: Promise<Answer>): Promise<Answer> {
  try {
    return await call.wait(asked);
  } catch (cause) {
    if (cause instanceof CallEnded) {
      asked.then(
        (answer) => answer.delivered(false),
        () => undefined,
      );
    }
    throw cause;
  }
}

const NONE_KEPT: KeptAnswers = {
  find: async () => undefined,
  inputOf: async () => undefined,
  read: async ({ id }) => Promise.reject(noResponse(id)),
  remove: async () => false,
  conversations: {
    begin: async () => Promise.reject(noConversation("")),
    find: async () => undefined,
    change: async () => undefined,
    remove: async () => false,
  },
};

function answerTo(idempotencyKey: string): string {
  return `answer to ${idempotencyKey}`;
}

function streamName(streamId: string): string {
  return `stream ${streamId}`;
}

function headersOf(answer: Answer, resumePath = answerPath(answer)): Readonly<Record<string, string>> {
  const { streamId, source } = answer;
  return {
    "x-holdfast-stream": streamId,
    "x-holdfast-answer": source,
    "x-holdfast-resume": resumePath,
  };
}

function respondJson(call: HttpCall, body: object, headers: ResponseHeaders = {}): void {
  call.respond(200, { ...JSON_HEADERS, ...headers }, `${JSON.stringify(body)}\n`);
}
