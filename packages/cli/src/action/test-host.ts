import { DEFAULT_NAMESPACE, namespaceName, validate } from '@sluice/contract';
import type { ActionLogLevel, HistoryMessage, HostAnswers, ToolEntry } from '@sluice/server/actions';

/** A line that an action has logged. */
export interface LogLine {
  readonly level: ActionLogLevel;
  readonly message: string;
}

/** A tool that an action has copied. */
export interface ToolCopy {
  readonly tool: string;
  readonly namespace: string;
}

/** What a trial answers an action of. */
export interface TestInputs {
  /** In order of registration. */
  readonly tools: readonly (ToolEntry & { readonly namespace: string })[];
  /** That of the request. */
  readonly namespace: string;
  readonly history: readonly HistoryMessage[];
  readonly conversationId: string | undefined;
  readonly verify: (raw: string) => Promise<string | undefined>;
}

/** What the service would answer an action, out of files (decisions 2.11). */
export class TestHost implements HostAnswers {
  readonly lines: LogLine[] = [];
  readonly copies: ToolCopy[] = [];
  readonly #world: TestInputs;
  readonly #tools: (ToolEntry & { readonly namespace: string })[];

  constructor(world: TestInputs) {
    this.#world = world;
    this.#tools = [...world.tools];
  }

  tools(namespace?: string): string {
    return JSON.stringify(this.#tools.filter((tool) => namespace === undefined || tool.namespace === namespace));
  }

  tool(name: string): ToolEntry | undefined {
    const named = this.#tools.filter((tool) => tool.name === name);
    const of = (namespace: string) => named.find((tool) => tool.namespace === namespace);
    return of(this.#world.namespace) ?? of(DEFAULT_NAMESPACE) ?? named[0];
  }

  copyTool(name: string, namespace: string): boolean {
    const tool = this.tool(name);
    if (tool === undefined || !isNamespace(namespace)) return false;
    // The namespace's own tool of that name stays.
    if (this.#tools.some((held) => held.name === name && held.namespace === namespace)) return true;
    this.#tools.push({ ...tool, namespace });
    this.copies.push({ tool: name, namespace });
    return true;
  }

  history(conversationId: string): string {
    const known = this.#world.conversationId === conversationId;
    return JSON.stringify(known ? this.#world.history : []);
  }

  verify(raw: string): Promise<string | undefined> {
    return this.#world.verify(raw);
  }

  log(level: ActionLogLevel, message: string): void {
    this.lines.push({ level, message });
  }
}

/** The service takes names of actions as they are, and those of operators trimmed. */
function isNamespace(name: string): boolean {
  const result = validate(namespaceName, name);
  return 'value' in result && result.value === name;
}
