// Retarget.cs: makes an assembly that Mono's compiler has built one for .NET Standard 2.0.
//
//   Retarget IN OUT STANDARD    STANDARD is Mono's netstandard.dll
//
// Mono's compiler names the assemblies of Mono that define a type: mscorlib and System. Programs
// for .NET know these types by the name of the standard, netstandard. It must have each of them.

using System;
using System.Collections.Generic;
using System.Linq;
using Mono.Cecil;

static class Retarget
{
    static int Main(string[] arguments)
    {
        var module = ModuleDefinition.ReadModule(arguments[0]);
        var names = ModuleDefinition.ReadModule(arguments[2]);
        AssemblyNameDefinition own = names.Assembly.Name;
        var standard = new AssemblyNameReference(own.Name, own.Version);
        standard.PublicKeyToken = own.PublicKeyToken;
        var known = new HashSet<string>(names.ExportedTypes.Select(type => type.FullName));

        AssemblyNameReference[] replaced = module.AssemblyReferences.ToArray();
        module.AssemblyReferences.Add(standard);
        foreach (TypeReference type in module.GetTypeReferences().ToArray())
        {
            if (type.DeclaringType != null || !(type.Scope is AssemblyNameReference)) continue;
            if (!known.Contains(type.FullName))
            {
                Console.Error.WriteLine(standard.FullName + " has no " + type.FullName);
                return 1;
            }
            type.Scope = standard;
        }
        foreach (AssemblyNameReference old in replaced) module.AssemblyReferences.Remove(old);
        var options = new WriterParameters { DeterministicMvid = true, Timestamp = 0 };
        module.Write(arguments[1], options);

        foreach (var reference in ModuleDefinition.ReadModule(arguments[1]).AssemblyReferences)
            Console.WriteLine(reference.FullName);
        return 0;
    }
}
