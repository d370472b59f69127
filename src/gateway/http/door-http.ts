/**
 * What the gateway's HTTP needs of a door: how its bodies are named, read and answered.
 */
import type { JsonObject } from "../../protocol/chat-message.ts";
import {
  type AnswerForm,
  type AnswerRequest,
  CHAT_FORM,
  type ContentRules,
  parseChatRequest,
} from "../openai/index.ts";
import { MESSAGE_FORM, parseMessageRequest } from "../messages/index.ts";
import { parseResponseRequest, responseForm, responseObject, underWay } from "../responses/index.ts";
import { answerPath } from "./answer-name.ts";
import type { Answer, ChatCall, KeptAnswers } from "./answers.ts";
import { CHAT_HASH, type HashRules, MESSAGES_HASH, RESPONSES_HASH } from "./request-hash.ts";

/** A body, understood. */
export interface Asked {
  readonly request: AnswerRequest;
  readonly form: AnswerForm;
  readonly call?: Pick<ChatCall, "door" | "keeping" | "isBackground">;
  /** The response has what is sealed in it. Default: not. */
  readonly isSealedShown?: boolean;
  /** The response to a client that does not wait for the answer. */
  readonly atOnce?: (answer: Answer) => object;
}

export interface DoorHttp {
  readonly hash: HashRules;
  /** Rejects with a GatewayError that names the field. */
  readonly read: (body: unknown, principal: string, betas?: string) => Promise<Asked>;
  /** The path whose `GET` continues the answer. */
  readonly resumePath: (answer: Answer, isSealedShown?: boolean) => string;
}

export function chatDoor(rules: ContentRules): DoorHttp {
  return {
    hash: CHAT_HASH,
    read: async (body) => ({ request: parseChatRequest(body, rules), form: CHAT_FORM }),
    resumePath: answerPath,
  };
}

export function messagesDoor(rules: ContentRules): DoorHttp {
  return {
    hash: MESSAGES_HASH,
    read: async (body, _, betas) => ({
      request: parseMessageRequest(body, rules, betas),
      form: MESSAGE_FORM,
      call: { door: "messages" },
    }),
    resumePath: answerPath,
  };
}

export function responsesDoor(rules: ContentRules, kept: KeptAnswers): DoorHttp {
  return {
    hash: RESPONSES_HASH,
    read: async (body, principal) => {
      const items = {
        through: (id: string) => through(kept, principal, id),
        outputOf: async (id: string) => (await kept.find(principal, id))?.output,
        conversation: (id: string) => kept.conversations.find(principal, id),
      };
      const parsed = await parseResponseRequest(body, rules, items);
      const { request, asked, isBackground, isSealedShown, ...keeping } = parsed;
      return {
        request,
        form: responseForm(asked, { isSealedShown }),
        isSealedShown,
        call: { door: "responses", isBackground, keeping: { asked, ...keeping } },
        ...(isBackground && !request.stream
          ? { atOnce: ({ head }: Answer) => responseObject(head, asked, underWay(head.model)) }
          : {}),
      };
    },
    resumePath: ({ head }, isSealedShown = false) =>
      `/v1/responses/${head.id}?stream=true${isSealedShown ? "&include[]=reasoning.encrypted_content" : ""}`,
  };
}

async function through(
  kept: KeptAnswers,
  principal: string,
  id: string,
): Promise<readonly JsonObject[] | undefined> {
  const [found, input] = await Promise.all([kept.find(principal, id), kept.inputOf(principal, id)]);
  return found === undefined || input === undefined ? undefined : [...input, ...found.output];
}
