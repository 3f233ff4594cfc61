/** Which tool of which upstream: what stays the same whatever a discovered tool is called. */
interface Origin {
  readonly forward: string;
  readonly upstreamName: string;
}

/** Things about discovered tools by where they come from. Of several of one origin the first counts. */
export class ToolsByOrigin<T extends Origin> {
  readonly #byOrigin = new Map<string, T>();

  constructor(tools: readonly T[]) {
    for (const tool of tools) {
      const key = originKey(tool.forward, tool.upstreamName);
      if (!this.#byOrigin.has(key)) this.#byOrigin.set(key, tool);
    }
  }

  get all(): T[] {
    return [...this.#byOrigin.values()];
  }

  /** Puts this one in the place of that of its origin. */
  replace(tool: T): void {
    this.#byOrigin.set(originKey(tool.forward, tool.upstreamName), tool);
  }

  find(forward: string, upstreamName: string): T | undefined {
    return this.#byOrigin.get(originKey(forward, upstreamName));
  }
}

function originKey(forward: string, upstreamName: string): string {
  return JSON.stringify([forward, upstreamName]);
}
