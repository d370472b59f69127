/**
 * Model calls whose tokens are counted for the API key that pays for their stream.
 *
 * The count is durable before the turn hears that the call is complete, so no kill lets a complete call go uncounted. A call that breaks off or is stopped reports
 * nothing, and nothing is counted for it.
 */
import type { Logger } from "pino";
import type { ModelPart } from "../agent/index.ts";
import type { Spending } from "../server/index.ts";
import type { Usage } from "../turn/usage.ts";
import type { Calling } from "./model-calls.ts";

type Counting = Pick<Spending, "mayCount" | "count">;

/** `spending`: of the store of the moment. */
export function countingTokens(
  spending: () => Counting | undefined,
  logger: Pick<Logger, "error">,
  calling: Calling = (model, call) => model.call(call),
): Calling {
  return (model, call) => {
    const parts = calling(model, call);
    const { stream } = call;
    if (stream === undefined || spending()?.mayCount !== true) return parts;
    return counted(parts, async (usage) => {
      try {
        await spending()?.count({ stream, name: call.nameOf?.(0), tokens: tokensOf(usage) });
      } catch (cause) {
        // The step that this call completes will not reach the store either; when it is made again, it is counted.
        logger.error({ err: cause }, "what a model call cost could not be counted");
      }
    });
  };
}

async function* counted(
  parts: ReturnType<Calling>,
  count: (usage: Usage) => Promise<void>,
): AsyncGenerator<ModelPart> {
  for await (const part of parts) {
    if (part.kind === "finish") await count(part.usage);
    yield part;
  }
}

/** Everything that the model read and wrote: `total_tokens` of OpenAI. */
function tokensOf({ inputTokens, cacheReadTokens, cacheWriteTokens, outputTokens }: Usage): number {
  return [inputTokens, cacheReadTokens, cacheWriteTokens, outputTokens]
    .map((tokens) => (Number.isFinite(tokens) ? Math.max(0, Math.round(tokens)) : 0))
    .reduce((sum, tokens) => sum + tokens, 0);
}
