/**
 * The page: conversations at the left, the answer in the middle, one quiet line below.
 *
 * The conversation on the screen is named behind the `#`, so a reload, a bookmark and a second tab show the same one.
 */
import { type RefObject, useCallback, useEffect, useLayoutEffect, useRef, useState } from "react";
import {
  HoldfastError,
  type LiveConversations,
  type PendingApproval,
  useConversation,
} from "../react/index.ts";
import { Chat } from "./chat.tsx";
import { Composer } from "./composer.tsx";
import { useConversationList } from "./conversation-list.ts";
import { useModels } from "./model-list.ts";
import { judgeKey } from "./session.ts";
import { Sidebar } from "./sidebar.tsx";
import { type StreamLogs } from "./stream-logs.ts";
import { StreamView } from "./stream-view.tsx";
import { StatusLine } from "./status-line.tsx";
import type { Decide } from "./tool-card.tsx";
import { Welcome } from "./welcome.tsx";

interface AppProps {
  readonly conversations: LiveConversations;
  readonly logs: StreamLogs;
  readonly apiKey: string;
  readonly signOut: (reason: string) => void;
}

const LAST = "holdfast last conversation";
const NO_FAILURE = { conversation: "", message: "", unsent: "" };
const REFUSED = "The server does not know this browser any more.";

/** The one that is named, else the one that was open last, else a new one. */
function conversationToOpen(): string {
  const named = /^#\/(?<id>[!-~]{1,128})$/.exec(location.hash)?.groups?.["id"];
  return named ?? localStorage.getItem(LAST) ?? crypto.randomUUID();
}

export function App({ conversations, logs, apiKey, signOut }: AppProps) {
  const [id, setId] = useState(conversationToOpen);
  const [isListOpen, setListOpen] = useState(false);
  const [isStreamOpen, setStreamOpen] = useState(false);
  const [model, setModel] = useState("");
  const refused = useCallback(() => signOut(REFUSED), [signOut]);
  const models = useModels(apiKey, refused);
  const field = useRef<HTMLTextAreaElement>(null);
  const chat = useConversation(conversations, id);
  const { turns, isBusy, approvals, send, stop, rewind, error } = chat;
  const listed = useConversationList(conversations, `${id} ${turns.length} ${isBusy} ${chat.title}`);
  /** What could not be sent, and why. */
  const [failure, setFailure] = useState(NO_FAILURE);
  // It may come when another conversation is on the screen.
  const trouble = failure.conversation === id ? failure : NO_FAILURE;
  const latest = useRef(turns);
  latest.current = turns;

  const show = useCallback((next: string) => {
    setId(next);
    setListOpen(false);
    setFailure(NO_FAILURE);
    field.current?.focus();
  }, []);
  useEffect(() => {
    history.replaceState(null, "", `#/${id}`);
    localStorage.setItem(LAST, id);
    document.title = chat.title === "" ? "Holdfast" : `${chat.title} · Holdfast`;
  }, [id, chat.title]);
  useEffect(() => {
    const changed = (): void => setId(conversationToOpen());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  useEffect(() => {
    if (error?.code === "unauthenticated") refused();
  }, [error, refused]);
  const isLeft = turns.at(-1)?.end?.reason === "left";
  useEffect(() => {
    // A revoked API key is one reason why a page has to let go of an answer.
    if (isLeft) void judgeKey(apiKey).then((verdict) => verdict === "refused" && refused());
  }, [isLeft, apiKey, refused]);

  /** `from`: the conversation goes back to before this turn first. Never rejects. */
  const say = useCallback(
    async (text: string, from?: number) => {
      setFailure(NO_FAILURE);
      try {
        if (from !== undefined) await rewind(from);
        await send(model === "" ? text : { text, model });
      } catch (cause) {
        const { message } = HoldfastError.from(cause);
        setFailure({ conversation: id, message, unsent: text });
      }
    },
    [id, rewind, send, model],
  );
  const resend = useCallback(
    (turnId: string, text: string) => {
      // Not made anew with each word of an answer: every turn that is drawn would be.
      const at = latest.current.findIndex((turn) => turn.id === turnId);
      if (at !== -1) void say(text, at);
      field.current?.focus();
    },
    [say],
  );
  const decide = useDecisions(approvals, chat.decide, field);
  useKeys(approvals, decide, {
    KeyN: () => show(crypto.randomUUID()),
    KeyS: () => setStreamOpen(!isStreamOpen),
    escape: () => {
      if (isBusy) void stop();
    },
  });

  return (
    <div className={`page${isListOpen ? " list-open" : ""}${isStreamOpen ? " stream-open" : ""}`}>
      <header className="bar">
        <button
          type="button"
          className="quiet"
          aria-expanded={isListOpen}
          aria-controls="conversations"
          onClick={() => setListOpen(!isListOpen)}
        >
          Conversations
        </button>
        <h1>{chat.title === "" ? "Holdfast" : chat.title}</h1>
      </header>
      <Sidebar
        listed={listed}
        current={id}
        open={show}
        close={() => setListOpen(false)}
        begin={() => show(crypto.randomUUID())}
        models={models}
        model={model}
        lastModel={turns.findLast((turn) => turn.model !== "")?.model ?? ""}
        choose={setModel}
        signOut={() => signOut("")}
      />
      <Chat key={id} turns={turns} approvals={approvals} mayEdit={!isBusy} decide={decide} resend={resend}>
        {!chat.isLoading && error === undefined && (
          <Welcome
            isRehearsal={models.every((one) => one.id.startsWith("rehearsal"))}
            ask={(text) => void say(text)}
          />
        )}
      </Chat>
      <div className="write">
        {trouble.message !== "" && (
          <p className="warns" role="alert">
            Not sent: {trouble.message.replace(/\.?$/, ".")} Your message stands below.{" "}
            <button type="button" onClick={() => field.current?.form?.requestSubmit()}>
              Send again
            </button>{" "}
            <button type="button" className="quiet" onClick={() => setFailure(NO_FAILURE)}>
              Dismiss
            </button>
          </p>
        )}
        {error !== undefined && (
          <p className="warns" role="alert">
            This conversation could not be read: {error.message} What was said in it is kept.{" "}
            <button type="button" className="quiet" onClick={() => location.reload()}>
              Load it again
            </button>
          </p>
        )}
        <Composer
          key={id}
          conversation={id}
          isBusy={isBusy}
          field={field}
          unsent={trouble.unsent}
          send={(text) => void say(text)}
          stop={() => void stop()}
        />
      </div>
      {isStreamOpen && (
        <StreamView logs={logs} name={turns.at(-1)?.id ?? ""} close={() => setStreamOpen(false)} />
      )}
      <StatusLine
        snapshot={chat}
        takeOver={chat.takeOver}
        isStreamOpen={isStreamOpen}
        toggleStream={() => setStreamOpen(!isStreamOpen)}
      />
    </div>
  );
}

/** A yes or a no, and those that were given for a tool once and for all, in this tab. */
function useDecisions(
  approvals: readonly PendingApproval[],
  answer: (id: string, isAllowed: boolean) => boolean,
  field: RefObject<HTMLTextAreaElement | null>,
): Decide {
  const always = useRef(new Set<string>());
  useEffect(() => {
    for (const { id, tool } of approvals) if (always.current.has(tool)) answer(id, true);
  }, [approvals, answer]);
  return useCallback(
    ({ id, tool }, said) => {
      if (said === "always") always.current.add(tool);
      answer(id, said !== "deny");
      field.current?.focus();
    },
    [answer, field],
  );
}

const ANSWERS = new Map<string, "allow" | "deny">([
  ["a", "allow"],
  ["d", "deny"],
]);

/** The keys A and D answer the oldest question, unless the person is typing. The other keys act wherever the focus is. */
function useKeys(
  approvals: readonly PendingApproval[],
  decide: Decide,
  acts: Readonly<Record<string, () => void>>,
): void {
  // With the question itself: a key that is pressed as soon as it is seen answers it.
  useLayoutEffect(() => {
    const pressed = (event: KeyboardEvent): void => {
      const { target, key } = event;
      const act = acts[event.altKey ? event.code : key === "Escape" ? "escape" : ""];
      // Escape has closed something already, or takes back what an input method wrote.
      if (act !== undefined && !event.defaultPrevented && !event.isComposing) {
        event.preventDefault();
        act();
      }
      const isTyping = target instanceof HTMLElement && target.matches("input, textarea, select");
      const [first] = approvals;
      if (first === undefined || isTyping || event.altKey || event.ctrlKey || event.metaKey) return;
      const said = ANSWERS.get(key.toLowerCase());
      if (said === undefined) return;
      // The answer moves the focus to the field: the letter must not go there.
      event.preventDefault();
      decide(first, said);
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  });
}
