import {openPort} from "../src/transport/node/port.ts";
import {frame,head,rst,dial,PREFACE,KEYS} from "/tmp/rh/h2raw.mjs";
process.on("unhandledRejection",e=>console.log("UNHANDLED",e.message));
for (const mode of ["idle","listen","paused"]) for(const code of [0,8]) for(const end of [0,1]) for (const data of [0,1,2]) {
  const port=await openPort({handle(ex){
    if(mode!=="idle") ex.listen({received(){ if(mode==="paused") ex.pause(); },ended(){},drained(){},closed(){}});
    setTimeout(()=>{ try{ ex.respond(200,{a:"b"}); ex.write(Buffer.from("x")); ex.end(Buffer.from("y")); ex.destroy(); }catch(e){console.log("THROWS",mode,code,end,data,e.code)} },60);
  },onBug:e=>console.log("bug",e)});
  const s=dial(port.port);s.resume();
  const out=[PREFACE,frame(1,4,1,head("/x","a",[],"POST"))];
  for(let i=0;i<data;i++)out.push(frame(0,end&&i===data-1?1:0,1,Buffer.alloc(16000)));
  s.write(Buffer.concat(out)); setTimeout(()=>s.write(rst(1,code)),20);
  await new Promise(r=>setTimeout(r,120)); s.destroy(); await port.close(0);
}
console.log("done");
