import type { Registry } from '../registry/registry.ts';

interface Binding {
  readonly conversationId: string;
  /** Of its namespace when the registry was last looked at; undefined where there was none. */
  identity: object | undefined;
}

/**
 * Which conversation the requests of a namespace belong to (specification, "Namespace binding"). In memory only. A
 * namespace need not exist to be bound; one that is deleted loses its binding, or the next one of its name would go on
 * with the conversation of another.
 */
export class NamespaceBindings {
  readonly #bindings = new Map<string, Binding>();
  readonly #registry: Registry;
  readonly #unwatch: () => void;

  constructor(registry: Registry) {
    this.#registry = registry;
    this.#unwatch = registry.onChange(() => this.#dropDeleted());
  }

  /** How many namespaces are bound. */
  get size(): number {
    return this.#bindings.size;
  }

  /** The conversation of a namespace; undefined when it is not bound. */
  get(namespace: string): string | undefined {
    return this.#bindings.get(namespace)?.conversationId;
  }

  set(namespace: string, conversationId: string): void {
    this.#bindings.set(namespace, { conversationId, identity: this.#identity(namespace) });
  }

  delete(namespace: string): void {
    this.#bindings.delete(namespace);
  }

  /** The conversations by namespace, in the order of their names. */
  list(): Record<string, string> {
    const sorted = [...this.#bindings].toSorted(([a], [b]) => (a < b ? -1 : 1));
    return Object.fromEntries(sorted.map(([namespace, { conversationId }]) => [namespace, conversationId]));
  }

  /** Lets the registry go. */
  close(): void {
    this.#unwatch();
  }

  #identity(namespace: string): object | undefined {
    return this.#registry.current.namespace(namespace)?.identity;
  }

  #dropDeleted(): void {
    for (const [namespace, binding] of this.#bindings) {
      const identity = this.#identity(namespace);
      if (binding.identity && binding.identity !== identity) this.#bindings.delete(namespace);
      else binding.identity = identity;
    }
  }
}
