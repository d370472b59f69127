/**
 * The first visit: a sentence, three things to try, and where a model is configured. Nothing else.
 */

interface WelcomeProps {
  /** By script, no AI. */
  readonly isRehearsal: boolean;
  readonly ask: (text: string) => void;
}

interface Try {
  readonly text: string;
  readonly shows: string;
}

const TIME: Try = { text: "What is the time in Oslo?", shows: "calls a tool in this page" };

const REHEARSED: readonly Try[] = [
  TIME,
  {
    text: 'call write_note {"name":"packing","text":"- coat\\n- boots\\n- a good book"}',
    shows: "asks you before it writes",
  },
  { text: "count to 300 every 100 ms", shows: "is slow enough to reload, go offline, or kill the server" },
];

const REAL: readonly Try[] = [
  TIME,
  {
    text: "Write a note named packing with three things for Oslo in winter.",
    shows: "asks you before it writes",
  },
  {
    text: "Tell me a long story about a lighthouse and a storm.",
    shows: "is slow enough to reload, go offline, or kill the server",
  },
];

export function Welcome({ isRehearsal, ask }: WelcomeProps) {
  return (
    <div className="welcome">
      <h1>Answers that stay</h1>
      <p>
        An answer here survives a reload, a lost network and a killed server, and is the same in every tab.
      </p>
      <ul>
        {(isRehearsal ? REHEARSED : REAL).map(({ text, shows }) => (
          <li key={text}>
            <button type="button" onClick={() => ask(text)}>
              <span className="try">{text}</span>
              <span className="hint">{shows}</span>
            </button>
          </li>
        ))}
      </ul>
      {isRehearsal && (
        <p className="hint">
          The rehearsal model answers by script, no AI. For a real one start the server with{" "}
          <code>OPENAI_API_KEY</code>, <code>ANTHROPIC_API_KEY</code>,{" "}
          <code>GOOGLE_GENERATIVE_AI_API_KEY</code> or <code>OLLAMA_HOST</code>.
        </p>
      )}
    </div>
  );
}
