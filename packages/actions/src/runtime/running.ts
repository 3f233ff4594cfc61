let running = false;

/** A run has begun: the service is there. */
export function begin(): void {
  running = true;
}

/** Functions of the service, which throw while the action is built: there, a call would end the engine without a word. */
export function whenRunning<T extends object>(name: string, functions: T): T {
  return new Proxy(functions, {
    get(target, key) {
      if (running) return Reflect.get(target, key);
      throw new Error(`service:evaluator/${name} is called at the top level of a module; call it in evaluate`);
    },
  });
}
