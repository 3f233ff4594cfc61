import type { ToolCallTransport } from '@sluice/contract';
import type { EventDetails } from './tool-call-record.ts';

/** How often there was an event of this kind. */
export interface ToolCallCount {
  readonly transport: ToolCallTransport;
  readonly type: EventDetails['type'];
  /** Of FAILED. */
  readonly category?: string;
  readonly count: number;
}

/** Counts events of tool calls. Part of the path of every call: makes no objects. */
export class ToolCallCounts {
  readonly #mcp = new CountsOfOne();
  readonly #grpc = new CountsOfOne();
  readonly #code = new CountsOfOne();

  add(transport: ToolCallTransport, details: EventDetails): void {
    const counts = this.#of(transport);
    if (details.type === 'STARTED') counts.started++;
    else if (details.type === 'COMPLETED') counts.completed++;
    else counts.failed.set(details.category, (counts.failed.get(details.category) ?? 0) + 1);
  }

  /** The counts so far; nothing of categories in which nothing failed. */
  all(): ToolCallCount[] {
    return (['mcp', 'grpc', 'code'] as const).flatMap((transport): ToolCallCount[] => {
      const { started, completed, failed } = this.#of(transport);
      return [
        { transport, type: 'STARTED', count: started },
        { transport, type: 'COMPLETED', count: completed },
        ...Array.from(failed, ([category, count]) => ({ transport, type: 'FAILED' as const, category, count })),
      ];
    });
  }

  #of(transport: ToolCallTransport): CountsOfOne {
    switch (transport) {
      case 'mcp':
        return this.#mcp;
      case 'grpc':
        return this.#grpc;
      case 'code':
        return this.#code;
    }
  }
}

class CountsOfOne {
  started = 0;
  completed = 0;
  readonly failed = new Map<string, number>();
}
