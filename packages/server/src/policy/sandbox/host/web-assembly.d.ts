/** The used part of WebAssembly's JavaScript interface, which the types of Node.js do not declare. */
declare namespace WebAssembly {
  class Module {
    constructor(bytes: Uint8Array);
  }
  class Memory {
    constructor(size: { readonly initial: number; readonly maximum: number; readonly shared: boolean });
    readonly buffer: ArrayBuffer;
  }
  class Instance<Exports extends object = object> {
    constructor(module: Module, imports: object);
    readonly exports: Exports;
  }
  function validate(bytes: Uint8Array): boolean;
}
