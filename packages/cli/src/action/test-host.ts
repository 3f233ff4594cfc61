import { DEFAULT_NAMESPACE, namespaceName, validate } from '@sluice/contract';
import type { ActionLogLevel, HistoryMessage, HostFunctions, ToolEntry } from '@sluice/server/actions';

/** A log line of an action. */
export interface LogLine {
  readonly level: ActionLogLevel;
  readonly message: string;
}

/** A tool copied by an action. */
export interface ToolCopy {
  readonly tool: string;
  readonly namespace: string;
}

/** Inputs of a test run. */
export interface TestInputs {
  /** In order of registration. */
  readonly tools: readonly (ToolEntry & { readonly namespace: string })[];
  readonly namespace: string;
  readonly history: readonly HistoryMessage[];
  readonly conversationId: string | undefined;
  readonly verify: (raw: string) => Promise<string | undefined>;
}

/** Host functions backed by files instead of the service. */
export class TestHost implements HostFunctions {
  readonly lines: LogLine[] = [];
  readonly copies: ToolCopy[] = [];
  readonly #inputs: TestInputs;
  readonly #tools: (ToolEntry & { readonly namespace: string })[];

  constructor(world: TestInputs) {
    this.#inputs = world;
    this.#tools = [...world.tools];
  }

  tools(namespace?: string): string {
    return JSON.stringify(this.#tools.filter((tool) => namespace === undefined || tool.namespace === namespace));
  }

  tool(name: string): ToolEntry | undefined {
    const named = this.#tools.filter((tool) => tool.name === name);
    const of = (namespace: string) => named.find((tool) => tool.namespace === namespace);
    return of(this.#inputs.namespace) ?? of(DEFAULT_NAMESPACE) ?? named[0];
  }

  copyTool(name: string, namespace: string): boolean {
    const tool = this.tool(name);
    if (tool === undefined || !isNamespace(namespace)) return false;
    // A tool of that name in the target namespace is not replaced.
    if (this.#tools.some((existing) => existing.name === name && existing.namespace === namespace)) return true;
    this.#tools.push({ ...tool, namespace });
    this.copies.push({ tool: name, namespace });
    return true;
  }

  history(conversationId: string): string {
    const known = this.#inputs.conversationId === conversationId;
    return JSON.stringify(known ? this.#inputs.history : []);
  }

  verify(raw: string): Promise<string | undefined> {
    return this.#inputs.verify(raw);
  }

  log(level: ActionLogLevel, message: string): void {
    this.lines.push({ level, message });
  }
}

/** Unlike operators' input, namespaces given by actions are not trimmed. */
function isNamespace(name: string): boolean {
  const result = validate(namespaceName, name);
  return 'value' in result && result.value === name;
}
