/**
 * Each request's way: Host and Origin, route, sign-in, handler; and one line in the log at its end.
 *
 * The order matters. What comes through a foreign page is refused before anything is looked at (E7), and nothing of a
 * stream is touched before the principal is known.
 */
import type { Logger } from "pino";
import { firstChars } from "../../protocol/characters.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import { HeadRefusal, readFormat } from "../../transport/node/call-head.ts";
import type { Exchange, ResponseHeaders } from "../../transport/node/exchange.ts";
import type { Caller } from "../../transport/transport.ts";
import { countRefusal, type ServerCounters } from "../counters.ts";
import { logBug, logRequest, type ProviderBreaks, type RequestLine, streamHash } from "./access-log.ts";
import { answer, answerEmpty, answerJson, answerError, discardBody, SECURITY_HEADERS } from "./answers.ts";
import { bearerTokens, gatewayTokens } from "./credentials.ts";
import { answerPage, answerSignIn, type FrontPage } from "./front-page.ts";
import { addTo, type HttpCounters, type RequestKind } from "./http-counters.ts";
import type { Metrics } from "./metrics.ts";
import { type Mount, type MountedCall, mountOf, requestIdOf } from "./mount.ts";
import { ObservedExchange } from "./observed-exchange.ts";
import type { OpenCalls } from "./open-calls.ts";
import { EXPOSED_HEADERS, isLoopbackHost, type Judge, PREFLIGHT_HEADERS } from "./origin.ts";
import { type Route, ROUTES, SERVED_PATHS } from "./routes.ts";
import type { Entry, SignIn } from "./sign-in.ts";
import { isForGatewayOnly } from "../api-key-limits.ts";

/** A call of one of the services, of a principal that is known. */
export type Call = (exchange: Exchange, caller: Caller) => void;

interface EdgeOptions {
  readonly judge: Judge;
  readonly signIn: SignIn;
  readonly openCalls: OpenCalls;
  readonly calls: Readonly<Partial<Record<RequestKind, Call>>>;
  readonly mounts: readonly Mount[];
  readonly metrics: () => Metrics;
  /** Absent: a notice stands in its place. */
  readonly page?: FrontPage | undefined;
  /** Whether `/metrics` is shown without an API key. */
  readonly hasOpenMetrics: boolean;
  /** Why this server should not be sent anything; undefined when it should. */
  readonly unreadyReason: () => Promise<string | undefined>;
  /** Why this process should be restarted; undefined when it is well. */
  readonly illness: () => string | undefined;
  /** From then on no call begins: it would only be waited for. */
  readonly isStopped: () => boolean;
  readonly logger: Logger;
  /** Called for each request when it is over. */
  readonly onRequest?: ((line: RequestLine, exchange: Exchange) => void) | undefined;
  /** A request reads an answer of the stream of this hash. What it returns is called when the request is over. */
  readonly onAnswer?: ((stream: string) => () => ProviderBreaks) | undefined;
  readonly http: HttpCounters;
  readonly counters: ServerCounters;
}

/** What is known of a request while it is under way. */
interface Pass {
  readonly kind: RequestKind;
  readonly exchange: ObservedExchange;
  principal: string | undefined;
  error: string | undefined;
  route: string | undefined;
  /** Names the stream that it is about. */
  streamId: string | undefined;
  answer: string | undefined;
  breaks: (() => ProviderBreaks) | undefined;
  /** Called at its end. */
  over: () => void;
}

export function createEdge(options: EdgeOptions): (exchange: Exchange) => void {
  const { logger, http, counters } = options;
  let requestCount = 0;

  function begin(
    exchange: Exchange,
    kind: RequestKind,
    headers: ResponseHeaders,
    requestId = (++requestCount).toString(36),
  ): Pass {
    const beganMs = performance.now();
    const observed = new ObservedExchange(exchange, headers, http, () => {
      addTo(http.open, kind, -1);
      addTo(http.done, `${kind} ${observed.status}`, 1);
      const { principal, error, route, answer } = pass;
      pass.over();
      const streamId = pass.streamId ?? exchange.header("x-idempotency-key");
      const isNamed = principal !== undefined && streamId !== undefined;
      const line = {
        requestId,
        kind,
        route,
        method: firstChars(exchange.method, METHOD_CHARS_MAX),
        remote: exchange.remoteAddress,
        http: exchange.httpVersion,
        principal,
        stream: isNamed ? streamHash(principal, streamId) : undefined,
        answer,
        ...pass.breaks?.(),
        status: observed.status,
        error,
        durationMs: Math.round(performance.now() - beganMs),
        bytesIn: observed.bytesIn,
        bytesOut: observed.bytesOut,
      };
      logRequest(logger, line);
      options.onRequest?.(line, observed);
    });
    const pass: Pass = {
      kind,
      exchange: observed,
      principal: undefined,
      error: undefined,
      route: undefined,
      streamId: undefined,
      answer: undefined,
      breaks: undefined,
      over: () => undefined,
    };
    addTo(http.open, kind, 1);
    return pass;
  }

  async function serve(pass: Pass, route: Route): Promise<void> {
    const { exchange } = pass;
    switch (route.kind) {
      case "page":
        await answerPage(exchange, options.page);
        return;
      case "sign_in": {
        const tokens = bearerTokens(exchange.header("authorization"));
        answerJson(exchange, 200, { apiKey: await answerSignIn(exchange, options.page, tokens) });
        return;
      }
      case "health": {
        const reason = options.illness();
        if (reason === undefined) answerJson(exchange, 200, { status: "alive" });
        else answerJson(exchange, 503, { status: "ill", reason });
        return;
      }
      case "ready": {
        const reason = await options.unreadyReason();
        if (reason === undefined) answerJson(exchange, 200, { status: "ready" });
        else answerJson(exchange, 503, { status: "not ready", reason }, { "retry-after": "1" });
        return;
      }
      case "metrics": {
        if (!options.hasOpenMetrics || !isLoopbackHost(exchange.host)) await signIn(pass);
        const metrics = options.metrics();
        answer(exchange, 200, { "content-type": metrics.contentType }, metrics.text());
        return;
      }
      default: {
        const format = readFormat(exchange, route.call ?? "unary");
        if (format instanceof HeadRefusal) {
          refuse(pass, format.error, format.status);
          return;
        }
        const { principal, apiKeyId = principal, limits, token } = await signIn(pass);
        if (isForGatewayOnly(limits)) throw onlyMounted();
        if (options.isStopped()) {
          throw new HoldfastError(
            "unavailable",
            "this server is shutting down; reconnect when it runs again",
          );
        }
        const call = options.calls[route.kind];
        if (call === undefined) throw new HoldfastError("not_found", "this server keeps no blobs");
        if (route.call === "stream") {
          pass.over = options.openCalls.add(token, exchange);
        }
        const tokensPerDay = limits?.tokensPerDay;
        call(exchange, {
          principal,
          payer: tokensPerDay === undefined ? undefined : { apiKeyId, tokensPerDay },
        });
        // Refused by its headers: no handler reads the rest.
        if (exchange.hasResponded) discardBody(exchange);
      }
    }
  }

  async function signIn(
    pass: Pass,
    tokens = bearerTokens(pass.exchange.header("authorization")),
  ): Promise<Entry> {
    const entry = await options.signIn.enter(tokens, pass.exchange.remoteAddress);
    pass.principal = entry.principal;
    return entry;
  }

  function mounted(exchange: Exchange, headers: ResponseHeaders): MountedCall & { readonly pass: Pass } {
    const requestId = requestIdOf(exchange);
    const pass = begin(
      exchange,
      "gateway",
      { ...headers, "x-request-id": requestId, "request-id": requestId },
      requestId,
    );
    return {
      pass,
      exchange: pass.exchange,
      requestId,
      signIn: async () => {
        const {
          principal,
          apiKeyId = principal,
          limits,
          token,
        } = await signIn(pass, gatewayTokens(exchange)).catch((cause: unknown) => {
          if (cause instanceof HoldfastError) countRefusal(counters, cause.code);
          throw cause;
        });
        pass.over = options.openCalls.add(token, pass.exchange);
        return { principal, apiKeyId, limits };
      },
      isStopped: options.isStopped,
      tell: (news) => {
        Object.assign(pass, news);
        const { principal } = pass;
        if (news.answer === undefined || news.streamId === undefined || principal === undefined) return;
        pass.breaks ??= options.onAnswer?.(streamHash(principal, news.streamId));
      },
      onBug: (bug) => {
        counters.bugs++;
        logBug(logger, bug);
      },
    };
  }

  function refuse(pass: Pass, cause: unknown, status?: number): void {
    if (!(cause instanceof HoldfastError)) {
      counters.bugs++;
      logBug(logger, cause);
    }
    const error = HoldfastError.from(cause, "internal", "this server made a mistake; try again");
    pass.error = error.code;
    countRefusal(counters, error.code);
    answerError(pass.exchange, error, status);
  }

  return (exchange) => {
    const judgement = options.judge(exchange);
    const route = ROUTES.get(exchange.path);
    const mount = mountOf(options.mounts, exchange.path);
    if (judgement.kind === "refused") {
      http.foreign++;
      if (mount !== undefined) {
        const call = mounted(exchange, SECURITY_HEADERS);
        call.pass.error = "foreign";
        mount.refuse(call, { status: 403, message: judgement.reason });
        return;
      }
      const pass = begin(exchange, route?.kind ?? "other", SECURITY_HEADERS);
      pass.error = "foreign";
      answerJson(pass.exchange, 403, { code: "permission_denied", message: judgement.reason });
      return;
    }
    const { corsOrigin } = judgement;
    const headers =
      corsOrigin === undefined
        ? SECURITY_HEADERS
        : { ...SECURITY_HEADERS, ...EXPOSED_HEADERS, "access-control-allow-origin": corsOrigin };
    if (exchange.method === "OPTIONS" && corsOrigin !== undefined) {
      answerEmpty(begin(exchange, "preflight", headers).exchange, 204, PREFLIGHT_HEADERS);
      return;
    }
    if (mount !== undefined) {
      mount.handle(mounted(exchange, headers));
      return;
    }
    const pass = begin(exchange, route?.kind ?? "other", headers);
    if (route === undefined) {
      const message = "nothing is served under this path";
      const ofMounts = options.mounts.flatMap((mount) =>
        Object.entries(mount.strayed(baseUrlOf(mount, exchange))),
      );
      answerJson(pass.exchange, 404, {
        ...Object.fromEntries(ofMounts),
        code: "not_found",
        message,
        served: SERVED_PATHS,
      });
    } else if (!route.methods.includes(exchange.method)) {
      const message = `use ${route.methods.join(" or ")}`;
      answerJson(pass.exchange, 405, { code: "unimplemented", message }, { allow: route.methods.join(", ") });
    } else {
      serve(pass, route)
        .catch((cause: unknown) => refuse(pass, cause))
        // A mistake in telling of a mistake costs this request, not the process.
        .catch((bug: unknown) => {
          logBug(logger, bug);
          exchange.destroy();
        });
    }
  };
}

/** As the client reached this port: its Host was judged before. */
function baseUrlOf({ prefix }: Mount, { isSecure, host }: Exchange): string {
  return `${isSecure ? "https" : "http"}://${host}${prefix.replace(/\/$/, "")}`;
}

/** Streams of our own protocol are counted by tokens alone: an API key with other limits must not get around them there. */
function onlyMounted(): HoldfastError {
  const message =
    "this API key has limits that count for /v1 alone; for streams use one without limits, or with tokens a day only";
  return new HoldfastError("unauthenticated", message);
}

/** No method that clients use is longer. */
const METHOD_CHARS_MAX = 16;
