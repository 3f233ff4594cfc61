// Original file: proto/tool.proto


export interface ToolInvokeReply {
  'isError'?: (boolean);
  /**
   * Each becomes a text content of the result.
   */
  'content'?: (string)[];
}

export interface ToolInvokeReply__Output {
  'isError': (boolean);
  /**
   * Each becomes a text content of the result.
   */
  'content': (string)[];
}
